import { useState } from 'preact/hooks';

import { type ErrorInfo, toServerError } from '../base/errors';
import { sanitize } from '../base/format';
import type { Translator } from '../base/translator';
import { nodeRange } from './card';
import { type PickerHost, Wrong } from './common';
import { Field } from './field';
import { fieldsOf } from './fields';
import type { PickerStore } from './store';
import type { Amounts, Runtime } from './types';

interface Props {
  store: PickerStore;
  host: PickerHost;
}

/** The options of the job: the usual ones, and all others on demand. */
export function Form({ store, host }: Props) {
  const { trans } = host;
  const [opened, setOpened] = useState(false);
  const { line, place } = store;
  const { values } = line;
  const options = store.options.value ?? [];
  const { main, more } = fieldsOf(options, place?.cluster === true, values);
  const set = more.filter(({ name }) => (values[name] ?? null) !== null).length;
  const { inapplicable } = store;
  const wrong = more.some(
    each => inapplicable.includes(each) || line.errors.some(({ option }) => option === each.name)
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
      aria-label={trans.__('Options of the job')}
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
        {open ? trans.__('Less') : trans.__('More')}
        {set > 0 && ` · ${trans.__('%1 set', set)}`}
      </button>
      {open && more.map(field)}
    </form>
  );
}

/** The number of nodes that the chosen runtime takes; keeps its space while that is unknown. */
function Range({ store, host: { trans } }: Props) {
  const { runtime } = store.line.values;
  if (typeof runtime !== 'string' || store.session) {
    return null;
  }
  const chosen = store.runtime;
  const nodes = chosen ? nodeRange(chosen, trans) : '…';
  const unknown = store.view?.runtimes.value && !chosen; // the list of runtimes explains it
  return (
    <p class="jaxtrain-quiet">
      {unknown ? '\u00a0' : trans.__('%1 supports %2', sanitize(runtime), nodes)}
    </p>
  );
}

// Options whose errors are shown elsewhere.
const ELSEWHERE = ['runtime', 'backend', 'context', 'namespace'];

/** What the job asks for in all, the line itself, and what can be done with it. */
export function Foot({ store, host }: Props) {
  const { trans } = host;
  const { session } = store;
  const { line, ask } = store.line.line;
  const runtimes = store.place?.cluster === true ? store.candidates : null;
  const options = store.options.value ?? [];
  const others = store.line.errors.filter(
    ({ option }) =>
      option === null ||
      (!ELSEWHERE.includes(option) && !options.some(({ name }) => name === option))
  );
  const text = sanitize(`%%jaxtrain ${line}`.trim());
  return (
    <footer class="jaxtrain-foot">
      {ask && (
        <p class="jaxtrain-ask" title={trans.__('Total requested by the job')}>
          <span class="jaxtrain-unseen">{trans.__('Total:')} </span>
          <b>
            {session
              ? trans.__('session %1 · %2', sanitize(session.name), sanitize(session.shape))
              : totalOf(ask, runtimes, trans)}
          </b>
        </p>
      )}
      <div class="jaxtrain-code">
        <pre tabIndex={0} aria-label={trans.__('The line of the cell')}>
          {text
            .split(' ')
            .map((word, index) => [index > 0 && ' ', <span key={index}>{word}</span>])}
        </pre>
        <button type="button" class="jaxtrain-button" onClick={() => host.copy(text)}>
          {trans.__('Copy')}
        </button>
      </div>
      {others.map(({ message, hint }, index) => (
        <Wrong key={index} error={{ message, hint }} />
      ))}
      {store.puts ? <Put store={store} host={host} /> : <Buttons store={store} host={host} />}
    </footer>
  );
}

/** The next action, and whether form and cell are in sync. */
function Buttons({ store, host }: Props) {
  const { trans } = host;
  const { line } = store;
  const { state, cell } = line;
  const wrong = line.errors.length > 0 || store.inapplicable.length > 0;
  let action: {
    label: string;
    title: string;
    blocked: boolean;
    run: () => Promise<unknown>;
  } | null = null;
  if (state === 'synced' || state === 'writing') {
    const title = trans.__('Run this cell');
    action = { label: trans.__('▶ Run cell'), title, blocked: wrong, run: () => store.run() };
  } else if (state === 'no-line') {
    const title = trans.__('Insert this line at the top of the cell');
    const blocked = wrong || !cell?.editable;
    action = { label: trans.__('Insert'), title, blocked, run: () => line.insert() };
  } else if (line.error) {
    const label = line.inCell ? trans.__('Update') : trans.__('Try again');
    action = { label, title: label, blocked: false, run: () => line.again() };
  }
  return (
    <>
      {line.error && <Wrong error={line.error} />}
      <div class="jaxtrain-do">
        {action && (
          <button
            type="button"
            class="jaxtrain-button jaxtrain-primary"
            aria-disabled={action.blocked}
            title={wrong ? trans.__('Fix the highlighted fields first') : action.title}
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
  const { trans } = host;
  const [error, setError] = useState<ErrorInfo | null>(null);
  const [done, setDone] = useState('');
  const { line } = store;
  const wrong = line.errors.length > 0;
  const shown = error ?? line.error;
  const put = async () => {
    setError(null);
    setDone('');
    try {
      setDone((await store.put()) || trans.__('inserted into the next cell'));
    } catch (error) {
      setError(toServerError(error));
    }
  };
  return (
    <>
      {shown && <Wrong error={shown} />}
      <div class="jaxtrain-do">
        <button
          type="button"
          class="jaxtrain-button jaxtrain-primary"
          aria-disabled={wrong}
          title={wrong ? trans.__('Fix the highlighted fields first') : ''}
          onClick={() => wrong || void put()}
        >
          {trans.__('Insert into the next cell')}
        </button>
        <span class="jaxtrain-standing jaxtrain-quiet" role="status">
          {sanitize(done)}
          {error && trans.__('Copy the line above instead')}
        </span>
      </div>
    </>
  );
}

/** Return whether form and cell are in sync. */
function State({ store, host }: Props) {
  const { trans } = host;
  const { state, cell } = store.line;
  if (!cell || state === 'no-notebook') {
    return <>{trans.__('no notebook is open')}</>;
  }
  const text = {
    'no-code': trans.__('not a code cell'),
    reading: trans.__('reading the cell…'),
    'no-line': trans.__('this cell has no %1 line', '%%jaxtrain'),
    writing: trans.__('updating the line…'),
    synced:
      store.line.errors.length + store.inapplicable.length > 0
        ? trans.__('has errors')
        : trans.__('in sync'),
    failed: trans.__('out of sync')
  }[state];
  const shown = cell.editable || state === 'no-code' ? text : trans.__('read-only');
  return <>{trans.__('cell %1 · %2', cell.number, shown)}</>;
}

/**
 * Return the total of what a job requests.
 *
 * What its line leaves open, a cluster takes from the runtime; `runtimes` are the candidates. This
 * machine has no such runtime (null): it divides its devices among the nodes, so only what the line
 * requests is counted.
 */
export function totalOf(
  { nodes, device, each, rest }: Amounts,
  runtimes: Runtime[] | null,
  trans: Translator
): string {
  const [only, ...others] = runtimes ?? [];
  const kind = device ?? (others.length === 0 ? only?.device : null) ?? '';
  const name = kind === 'cpu' ? '' : sanitize(kind).toUpperCase();
  const usual = new Set(runtimes?.filter(one => one.device === kind).map(one => one.devices ?? 1));
  const [first = 1] = usual.size === 1 ? usual : [];
  const count = each ?? (runtimes && name ? first : null);
  const devices = count === null ? 0 : nodes * count;
  const named = name
    ? `${devices} ${name}`
    : kind === 'cpu'
      ? trans._n('%1 CPU device', '%1 CPU devices', devices)
      : trans._n('%1 device', '%1 devices', devices);
  const parts = [devices > 0 && named, ...rest.map(sanitize)].filter(Boolean);
  return parts.join(' · ') || trans._n('%1 node', '%1 nodes', nodes);
}
