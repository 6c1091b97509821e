import { plain, progress } from '../base/format';
import type { Row } from '../base/protocol';
import { group, stateWord } from '../base/states';
import type { JobsStore } from '../job/stores';
import type { Words } from '../base/translator';
import { useWatched } from '../base/hooks';

const NAMED = 8;

/** Say how many jobs run, or else how many wait; nothing when none is active. */
export function standing(rows: readonly Row[], words: Words): string {
  const active = rows.filter(row => row.active);
  const running = active.filter(row => group(row.state) === 'running').length;
  if (running > 0) {
    return words._n('%1 training job running', '%1 training jobs running', running);
  }
  const waiting = active.length;
  return waiting > 0
    ? words._n('%1 training job waiting', '%1 training jobs waiting', waiting)
    : '';
}

interface StandingProps {
  store: JobsStore;
  words: Words;
  onClick: () => void;
}

/** The active jobs in a few words, as a button for the status bar. */
export function Standing({ store, words, onClick }: StandingProps) {
  useWatched(store);
  const text = standing(store.rows, words);
  const active = store.rows.filter(row => row.active);
  const lines = active
    .slice(0, NAMED)
    .map(row =>
      [plain(row.name), stateWord(row.state, words), progress(row, words)]
        .filter(Boolean)
        .join(' · ')
    );
  const more = active.length - lines.length;
  const title = [...lines, more > 0 ? words.__('and %1 more', more) : ''].filter(Boolean);
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
