import { sanitize } from '../base/format';
import type { Row, TailLine } from '../base/protocol';
import type { Translator } from '../base/translator';
import { NOTE } from './pages';
import { Rank, Text } from './row';
import { timeOf } from './times';

interface TailProps {
  row: Row;
  lines: readonly TailLine[];
  /** The number of lines to reserve space for; 0 for none. */
  room: number;
  trans: Translator;
}

/** The last lines of a job. A new line replaces the oldest one: nothing moves. */
export function Tail({ row, lines, room, trans }: TailProps) {
  const free = Math.max(0, room - lines.length);
  return (
    <div class="jaxtrain-tail" role="group" aria-label={trans.__('Last lines')}>
      {lines.length === 0 && <p class="jaxtrain-quiet">{trans.__('No output yet')}</p>}
      {Array.from({ length: free }, (_, index) => (
        <div key={index} aria-hidden="true" />
      ))}
      {lines.map(([source, time, text], index) => (
        // A new element for another text, or the browser reports a layout shift.
        <div key={`${free + index} ${source} ${time} ${text}`}>
          <span class="jaxtrain-tail-time">{timeOf(time, 'clock', row.created)}</span>
          <Rank source={source} trans={trans} />
          <Said text={text} />
        </div>
      ))}
    </div>
  );
}

/** A line, or a note of ours as such. */
function Said({ text }: { text: string }) {
  const note = NOTE.exec(text)?.[1];
  return (
    <span class="jaxtrain-tail-text" dir="auto" data-note={note !== undefined || undefined}>
      {note === undefined ? <Text text={text} marker={null} /> : sanitize(note)}
    </span>
  );
}
