import { useState } from 'preact/hooks';

import { ApiError } from '../base/api';
import { plain } from '../base/format';
import { fieldsOf } from './fields';
import type { PickerStore } from './store';
import { totalOf } from './total';
import type { Trouble } from './types';
import { Wrong, type PickerHost } from './common';
import { Field } from './field';
import { nodesOf } from './card';

interface Props {
  store: PickerStore;
  host: PickerHost;
}

/** The options of the job: the usual ones, and all others on demand. */
export function Form({ store, host }: Props) {
  const { words } = host;
  const [opened, setOpened] = useState(false);
  const { line, place } = store;
  const { values } = line;
  const options = store.options.value ?? [];
  const { main, more } = fieldsOf(options, place?.backend === 'kubernetes', values);
  const set = more.filter(({ name }) => (values[name] ?? null) !== null).length;
  const { strays } = store;
  const wrong = more.some(
    each => strays.includes(each) || line.errors.some(({ option }) => option === each.name)
  );
  const open = opened || wrong;
  const field = (option: (typeof main)[number]) => (
    <Field key={option.name} option={option} store={store} host={host} />
  );
  if (!store.options.value) {
    return null;
  }
  return (
    <form
      class="jaxtrain-form"
      aria-label={words.__('Options of the job')}
      onSubmit={event => event.preventDefault()}
    >
      {main.map(field)}
      <Range store={store} host={host} />
      <button
        type="button"
        class="jaxtrain-link"
        aria-expanded={open}
        onClick={() => setOpened(!open)}
      >
        {open ? words.__('Less') : words.__('More')}
        {set > 0 && ` · ${words.__('%1 set', set)}`}
      </button>
      {open && more.map(field)}
    </form>
  );
}

/** Say how many nodes the chosen runtime takes; the line is there where that is not known (yet). */
function Range({ store, host: { words } }: Props) {
  const { runtime } = store.line.values;
  if (typeof runtime !== 'string') {
    return null;
  }
  const chosen = store.runtime;
  const nodes = chosen ? nodesOf(chosen, words) : '…';
  const unknown = store.view?.runtimes.value && !chosen; // what that means is said where the runtimes are
  return (
    <p class="jaxtrain-quiet">
      {unknown ? '\u00a0' : words.__('%1 takes %2', plain(runtime), nodes)}
    </p>
  );
}

// The options that have a place of their own for what is wrong with them.
const ELSEWHERE = ['runtime', 'backend', 'context', 'namespace'];

/** What the job asks for in all, the line itself, and what can be done with it. */
export function Foot({ store, host }: Props) {
  const { words } = host;
  const { line, ask } = store.line.line;
  const runtimes = store.place?.backend === 'kubernetes' ? store.candidates : null;
  const options = store.options.value ?? [];
  const others = store.line.errors.filter(
    ({ option }) =>
      option === null ||
      (!ELSEWHERE.includes(option) && !options.some(({ name }) => name === option))
  );
  const text = plain(`%%jaxtrain ${line}`.trim());
  return (
    <footer class="jaxtrain-foot">
      {ask && (
        <p class="jaxtrain-ask" title={words.__('What the job asks for in all')}>
          <span class="jaxtrain-unseen">{words.__('In all:')} </span>
          <b>{totalOf(ask, runtimes, words)}</b>
        </p>
      )}
      <div class="jaxtrain-code">
        <pre tabIndex={0} aria-label={words.__('The line of the cell')}>
          {text
            .split(' ')
            .map((word, index) => [index > 0 && ' ', <span key={index}>{word}</span>])}
        </pre>
        <button type="button" class="jaxtrain-button" onClick={() => host.copy(text)}>
          {words.__('Copy')}
        </button>
      </div>
      {others.map(({ message, hint }, index) => (
        <Wrong key={index} trouble={{ message, hint }} />
      ))}
      {store.puts ? <Put store={store} host={host} /> : <Buttons store={store} host={host} />}
    </footer>
  );
}

/** The one thing to do now, and how form and cell stand to each other. */
function Buttons({ store, host }: Props) {
  const { words } = host;
  const { line } = store;
  const { state, cell } = line;
  const wrong = line.errors.length > 0 || store.strays.length > 0;
  let action: {
    label: string;
    title: string;
    blocked: boolean;
    run: () => Promise<unknown>;
  } | null = null;
  if (state === 'step' || state === 'changing') {
    const title = words.__('Run this cell');
    action = { label: words.__('▶ Run cell'), title, blocked: wrong, run: () => store.run() };
  } else if (state === 'free') {
    const title = words.__('Put this line at the beginning of the cell');
    const blocked = wrong || !cell?.editable;
    action = { label: words.__('Insert'), title, blocked, run: () => line.insert() };
  } else if (line.trouble) {
    const label = line.inCell ? words.__('Update') : words.__('Try again');
    action = { label, title: label, blocked: false, run: () => line.again() };
  }
  return (
    <>
      {line.trouble && <Wrong trouble={line.trouble} />}
      <div class="jaxtrain-do">
        {action && (
          <button
            type="button"
            class="jaxtrain-button jaxtrain-primary"
            aria-disabled={action.blocked}
            title={wrong ? words.__('Correct what is marked first') : action.title}
            onClick={() => action.blocked || void action.run()}
          >
            {action.label}
          </button>
        )}
        <span class="jaxtrain-standing jaxtrain-quiet">
          <State store={store} host={host} />
        </span>
      </div>
    </>
  );
}

/** Where no cell can be edited: put the line into the next one; it can always be copied. */
function Put({ store, host }: Props) {
  const { words } = host;
  const [trouble, setTrouble] = useState<Trouble | null>(null);
  const [done, setDone] = useState('');
  const { line } = store;
  const wrong = line.errors.length > 0;
  const shown = trouble ?? line.trouble;
  const put = async () => {
    setTrouble(null);
    setDone('');
    try {
      setDone((await store.put()) || words.__('it is in the next cell'));
    } catch (error) {
      setTrouble(error instanceof ApiError ? error : new ApiError(String(error), null));
    }
  };
  return (
    <>
      {shown && <Wrong trouble={shown} />}
      <div class="jaxtrain-do">
        <button
          type="button"
          class="jaxtrain-button jaxtrain-primary"
          aria-disabled={wrong}
          title={wrong ? words.__('Correct what is marked first') : ''}
          onClick={() => wrong || void put()}
        >
          {words.__('Put into the next cell')}
        </button>
        <span class="jaxtrain-standing jaxtrain-quiet" role="status">
          {plain(done)}
          {trouble && words.__('copy the line above instead')}
        </span>
      </div>
    </>
  );
}

/** Say how the form and the cell stand to each other. */
function State({ store, host }: Props) {
  const { words } = host;
  const { state, cell } = store.line;
  if (!cell || state === 'none') {
    return <>{words.__('no notebook is open')}</>;
  }
  const text = {
    other: words.__('this cell holds no code'),
    unread: words.__('reading the cell…'),
    free: words.__('this cell has no %1 line', '%%jaxtrain'),
    changing: words.__('changing the line…'),
    step:
      store.line.errors.length + store.strays.length > 0
        ? words.__('something is wrong')
        : words.__('in step'),
    apart: words.__('not in step')
  }[state];
  const shown = cell.editable || state === 'other' ? text : words.__('this cell is read-only');
  return <>{words.__('cell %1 · %2', cell.number, shown)}</>;
}
