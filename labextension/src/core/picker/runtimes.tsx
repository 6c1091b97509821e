import { useId, useRef, useState } from 'preact/hooks';

import { sanitize } from '../base/format';
import { Card, NamedCard } from './card';
import { Errors, type PickerHost, Wrong } from './common';
import { matching } from './places';
import type { PickerStore, PlaceView } from './store';

interface RuntimesProps {
  store: PickerStore;
  host: PickerHost;
  view: PlaceView;
}

const MANY = 4; // runtimes from which a search field is worth its space

/** What the job can run on. Arrows move from card to card, Space and Enter choose. */
export function Runtimes({ store, host, view }: RuntimesProps) {
  const { trans } = host;
  const id = useId();
  const [text, setText] = useState('');
  const [at, setAt] = useState<string | null>(null);
  const list = useRef<HTMLDivElement>(null);
  const { value, error, loading } = view.runtimes;
  const all = value ?? [];
  // It stays while another namespace is asked: somebody may be typing into it.
  const many = useRef(false);
  many.current = value === null ? many.current : all.length >= MANY;
  const { runtime } = store.line.values;
  const chosen = typeof runtime === 'string' ? runtime : null;
  const shown = matching(all, text);
  const named = all.some(({ name }) => name === chosen) ? null : chosen; // only the line names it
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
  const card = { trans, current, chosen: chosen ?? '', choose };
  return (
    <section
      class="jaxtrain-runtimes"
      data-cluster={view.cluster || undefined}
      aria-label={trans.__('Runtime')}
    >
      <header class="jaxtrain-head">
        <h3>{trans.__('Runtime')}</h3>
        {(many.current || text) && (
          <input
            type="search"
            value={text}
            placeholder={trans.__('Search runtimes')}
            aria-label={trans.__('Search runtimes by name, device, version or image')}
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
              ? trans.__('%1 of %2', shown.length, all.length)
              : all.length}
          </span>
        )}
      </header>
      <div class="jaxtrain-offers">
        <div
          ref={list}
          class="jaxtrain-cards"
          role="radiogroup"
          aria-label={trans.__('Runtime')}
          aria-describedby={id}
          onKeyDown={onKeyDown}
        >
          <NamedCard
            {...card}
            name=""
            title={trans.__('Automatic')}
            text={trans.__('Picks a runtime for the device')}
          />
          {named !== null && (
            <NamedCard
              {...card}
              name={named}
              title={sanitize(named)}
              text={
                value ? trans.__('Named in the line, but not found') : trans.__('Named in the line')
              }
              wrong={value !== null}
            />
          )}
          {shown.map(each => (
            <Card
              key={`${view.key} ${each.name}`}
              {...card}
              runtime={each}
              view={view}
              host={host}
            />
          ))}
        </div>
        {!value && !error && loading && (
          <p class="jaxtrain-quiet" role="status">
            {trans.__('Loading runtimes…')}
          </p>
        )}
        {error && (
          <Wrong error={error}>
            <button type="button" class="jaxtrain-button" onClick={() => store.refresh()}>
              {trans.__('Check again')}
            </button>
            {loading && <span class="jaxtrain-quiet">{` ${trans.__('Checking…')}`}</span>}
          </Wrong>
        )}
        {value && all.length === 0 && (
          <p class="jaxtrain-quiet">
            {trans.__(
              'No training runtimes for JAX found. A cluster administrator can install ours with "jaxtrain runtimes install".'
            )}
          </p>
        )}
        {all.length > 0 && shown.length === 0 && (
          <div role="status">
            <p class="jaxtrain-quiet">{trans.__('No matching runtimes')}</p>
            <button type="button" class="jaxtrain-button" onClick={() => setText('')}>
              {trans.__('Show all')}
            </button>
          </div>
        )}
      </div>
      <Errors id={id} errors={store.line.errors.filter(({ option }) => option === 'runtime')} />
    </section>
  );
}
