import { progress, sanitize } from '../base/format';
import { useObservable } from '../base/hooks';
import type { Row } from '../base/protocol';
import { group, stateLabel } from '../base/states';
import type { Translator } from '../base/translator';
import type { JobsStore } from './store';

const NAMED = 8;

/** Return how many jobs run, else how many wait; empty if none is active. */
export function statusText(rows: readonly Row[], trans: Translator): string {
  const active = rows.filter(row => row.active);
  const running = active.filter(row => group(row.state) === 'running').length;
  if (running > 0) {
    return trans._n('%1 training job running', '%1 training jobs running', running);
  }
  const waiting = active.length;
  return waiting > 0
    ? trans._n('%1 training job waiting', '%1 training jobs waiting', waiting)
    : '';
}

interface StatusItemProps {
  store: JobsStore;
  trans: Translator;
  onClick: () => void;
}

/** A summary of the active jobs, as a button for the status bar. */
export function StatusItem({ store, trans, onClick }: StatusItemProps) {
  useObservable(store);
  const text = statusText(store.rows, trans);
  const active = store.rows.filter(row => row.active);
  const lines = active
    .slice(0, NAMED)
    .map(row =>
      [sanitize(row.name), stateLabel(row.state, trans), progress(row, trans)]
        .filter(Boolean)
        .join(' · ')
    );
  const more = active.length - lines.length;
  const title = [...lines, more > 0 ? trans.__('and %1 more', more) : ''].filter(Boolean);
  return text ? (
    <button
      type="button"
      class="jaxtrain-standing-button"
      title={title.join('\n')}
      onClick={onClick}
    >
      {text}
    </button>
  ) : null;
}
