/** Lines that are chosen with Shift: those from where it was pressed to the current one. */

import { textOf } from './ansi';
import type { Reader } from './reader';

/** Move by rows, as far as there are some; following would take the lines out of one's hands. */
export function extend(reader: Reader, by: number): void {
  const { folds, length } = reader;
  const last = length - folds.hidden - 1;
  reader.letGo();
  reader.move(Math.min(by, last - folds.rowOf(reader.at)));
}

/** Give lines as plain text, without times and ranks; null when not all of them are here. */
export function chosenText(reader: Reader, first: number, last: number): string | null {
  const texts: string[] = [];
  const { folds } = reader;
  const fold = folds.isOpen(last) ? undefined : folds.at(last); // one row, and all its lines
  const end = fold?.lines.at(-1) ?? last;
  for (let index = first; index <= end; index++) {
    const line = reader.store.line(index);
    if (!line) {
      return null;
    }
    texts.push(textOf(line.text));
  }
  return texts.join('\n');
}
