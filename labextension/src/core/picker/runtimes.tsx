import { useId, useRef, useState } from 'preact/hooks';

import { plain } from '../base/format';
import { matching } from './places';
import type { PickerStore, PlaceView } from './store';
import { Errors, Wrong, type PickerHost } from './common';
import { Card, NamedCard } from './card';

interface RuntimesProps {
  store: PickerStore;
  host: PickerHost;
  view: PlaceView;
}

const MANY = 4; // from here on a search is worth its line

/** What the job can run on. Arrows move from card to card, Space and Enter choose. */
export function Runtimes({ store, host, view }: RuntimesProps) {
  const { words } = host;
  const id = useId();
  const [text, setText] = useState('');
  const [at, setAt] = useState<string | null>(null);
  const list = useRef<HTMLDivElement>(null);
  const { value, trouble, asking } = view.runtimes;
  const all = value ?? [];
  const { runtime } = store.line.values;
  const chosen = typeof runtime === 'string' ? runtime : null;
  const shown = matching(all, text);
  const named = all.some(({ name }) => name === chosen) ? null : chosen; // by the line alone
  const names = ['', ...(named === null ? [] : [named]), ...shown.map(({ name }) => name)];
  const current = [at, chosen, ''].find(name => name !== null && names.includes(name)) ?? '';
  const choose = (name: string) => {
    setAt(name);
    store.chooseRuntime(name || null);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const radio = event.target as HTMLElement;
    if (radio.getAttribute('role') !== 'radio' || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const index = names.indexOf(radio.dataset['name'] ?? '');
    const last = names.length - 1;
    const to = {
      ArrowDown: Math.min(last, index + 1),
      ArrowRight: Math.min(last, index + 1),
      ArrowUp: Math.max(0, index - 1),
      ArrowLeft: Math.max(0, index - 1),
      Home: 0,
      End: last
    }[event.key];
    if (to !== undefined) {
      setAt(names[to] ?? '');
      list.current?.querySelectorAll<HTMLElement>('[role=radio]')[to]?.focus();
    } else if (event.key === 'Enter' || event.key === ' ') {
      choose(names[index] ?? '');
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  const card = { words, current, chosen: chosen ?? '', choose };
  return (
    <section
      class="jaxtrain-runtimes"
      data-cluster={view.cluster || undefined}
      aria-label={words.__('Runtime')}
    >
      <header class="jaxtrain-head">
        <h3>{words.__('Runtime')}</h3>
        {all.length >= MANY && (
          <input
            type="search"
            value={text}
            placeholder={words.__('Search runtimes')}
            aria-label={words.__(
              'Search runtimes by words of their name, device, version or image'
            )}
            onInput={event => setText(event.currentTarget.value)}
            onKeyDown={event => {
              if (event.key === 'Escape' && text) {
                event.stopPropagation();
                setText('');
              }
            }}
          />
        )}
        {value && (
          <span>
            {shown.length < all.length
              ? words.__('%1 of %2', shown.length, all.length)
              : all.length}
          </span>
        )}
      </header>
      <div class="jaxtrain-offers">
        <div
          ref={list}
          class="jaxtrain-cards"
          role="radiogroup"
          aria-label={words.__('Runtime')}
          aria-describedby={id}
          onKeyDown={onKeyDown}
        >
          <NamedCard
            {...card}
            name=""
            title={words.__('Automatic')}
            text={words.__('The one that suits the device')}
          />
          {named !== null && (
            <NamedCard
              {...card}
              name={named}
              title={plain(named)}
              text={
                value
                  ? words.__('The line names it, and it is not there')
                  : words.__('The line names it')
              }
              wrong={value !== null}
            />
          )}
          {shown.map(each => (
            <Card key={each.name} {...card} runtime={each} view={view} host={host} />
          ))}
        </div>
        {!value && !trouble && asking && (
          <p class="jaxtrain-quiet" role="status">
            {words.__('Looking for runtimes…')}
          </p>
        )}
        {trouble && (
          <Wrong trouble={trouble}>
            <button type="button" class="jaxtrain-button" onClick={() => store.lookAgain()}>
              {words.__('Look again')}
            </button>
            {asking && <span class="jaxtrain-quiet">{` ${words.__('Looking…')}`}</span>}
          </Wrong>
        )}
        {value && all.length === 0 && (
          <p class="jaxtrain-quiet">
            {words.__(
              'There is no training runtime for JAX here. The folder runtimes of the project has some for "kubectl apply -k"; who runs the cluster can install them.'
            )}
          </p>
        )}
        {all.length > 0 && shown.length === 0 && (
          <div role="status">
            <p class="jaxtrain-quiet">{words.__('No runtime matches.')}</p>
            <button type="button" class="jaxtrain-button" onClick={() => setText('')}>
              {words.__('Show all')}
            </button>
          </div>
        )}
      </div>
      <Errors id={id} errors={store.line.errors.filter(({ option }) => option === 'runtime')} />
    </section>
  );
}
