import { formatNumber, progress, sanitize } from '../base/format';
import { useObservable } from '../base/hooks';
import type { Here, Row } from '../base/protocol';
import { group, stateLabel } from '../base/states';
import type { Translator } from '../base/translator';
import type { HereStore } from './here';
import type { JobsStore } from './store';

const NAMED = 8;

/** Return the active jobs; a session counts as one, whatever it runs. */
function activeOf(rows: readonly Row[]): readonly Row[] {
  return rows.filter(row => row.active && row.cell_of === null);
}

/** Return how many jobs run, else how many wait; empty if none is active. */
export function statusText(rows: readonly Row[], trans: Translator): string {
  const active = activeOf(rows);
  const running = active.filter(row => group(row.state) === 'running').length;
  if (running > 0) {
    return trans._n('%1 training job running', '%1 training jobs running', running);
  }
  const waiting = active.length;
  return waiting > 0
    ? trans._n('%1 training job waiting', '%1 training jobs waiting', waiting)
    : '';
}

/** Return what is used of this machine; empty where that is not known. */
export function hereText(look: Here | null, trans: Translator): string {
  const { cpu = null, cores = null, used = null, limit = null } = look ?? {};
  const gib = (bytes: number) => formatNumber(Math.round((bytes / 2 ** 30) * 10) / 10);
  const parts = [
    cpu !== null && cores
      ? trans.__('CPU %1 %', Math.min(100, Math.round((100 * cpu) / cores)))
      : '',
    used !== null && limit !== null ? trans.__('memory %1 of %2 GiB', gib(used), gib(limit)) : ''
  ];
  return parts.filter(Boolean).join(' · ');
}

interface StatusItemProps {
  store: JobsStore;
  here: HereStore;
  trans: Translator;
  onClick: () => void;
}

/** A summary of the active jobs, else of this machine, as a button for the status bar. */
export function StatusItem({ store, here, trans, onClick }: StatusItemProps) {
  useObservable(store);
  useObservable(here);
  const jobs = statusText(store.rows, trans);
  const text = jobs || hereText(here.look, trans);
  const active = activeOf(store.rows);
  const lines = active
    .slice(0, NAMED)
    .map(row =>
      [sanitize(row.name), stateLabel(row.state, trans), progress(row, trans)]
        .filter(Boolean)
        .join(' · ')
    );
  const more = active.length - lines.length;
  const idle = jobs ? '' : trans.__('Resource usage of the Jupyter server');
  const title = [idle, ...lines, more > 0 ? trans.__('and %1 more', more) : ''].filter(Boolean);
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
