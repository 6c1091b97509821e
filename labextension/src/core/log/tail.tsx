import type { Row, TailLine } from '../base/protocol';
import type { Translator } from '../base/translator';
import { Rank, Text } from './row';
import { timeOf } from './times';

interface TailProps {
  row: Row;
  lines: readonly TailLine[];
  /** For how many lines there is always room; 0: for as many as there are. */
  room: number;
  trans: Translator;
}

/** The last lines of a job. A line that comes takes the place of another one: nothing moves. */
export function Tail({ row, lines, room, trans }: TailProps) {
  const free = Math.max(0, room - lines.length);
  return (
    <div class="jaxtrain-tail" role="group" aria-label={trans.__('Last lines')}>
      {lines.length === 0 && (
        <p class="jaxtrain-quiet">{trans.__('Nothing has been printed yet.')}</p>
      )}
      {Array.from({ length: free }, (_, index) => (
        <div key={index} aria-hidden="true" />
      ))}
      {lines.map(([source, time, text], index) => (
        // Made anew with another text: else the browser says that its parts jump.
        <div key={`${free + index} ${source} ${time} ${text}`}>
          <span class="jaxtrain-tail-time">{timeOf(time, 'clock', row.created)}</span>
          <Rank source={source} trans={trans} />
          <span class="jaxtrain-tail-text" dir="auto">
            <Text text={text} marker={null} />
          </span>
        </div>
      ))}
    </div>
  );
}
