/** Tracebacks that are shown as one row, and which row a line is in then. */

import { textOf } from './ansi';
import type { LogLine } from './pages';

const BEGIN = /^\s*(?:\+ )?(?:Exception Group )?Traceback \(most recent call last\):\s*$/;
const AGAIN = /^(?:During handling of the above|The above exception was the direct cause)/;
const LEAST = 3;
const MOST = 1000; // lines of a traceback

export interface Fold {
  /** The number of the first line, which stays. */
  start: number;
  /** The number after the last line. */
  end: number;
  /** What the traceback says at its end. */
  last: string;
}

/** Find a traceback that begins at a line; null where there is none. */
function traceback(start: number, line: (index: number) => LogLine | undefined): Fold | null {
  const first = line(start);
  if (!first?.text.includes('Traceback') || first.source === null) {
    return null;
  }
  if (!BEGIN.test(textOf(first.text))) {
    return null;
  }
  let end = start + 1;
  let last = '';
  // After its error a traceback goes on where another one says that it came of it.
  let over = false;
  for (let index = end; index < start + MOST; index++) {
    const next = line(index);
    if (next?.source !== first.source) {
      break;
    }
    const text = textOf(next.text);
    if (over && text.trim() && !AGAIN.test(text) && !BEGIN.test(text)) {
      break;
    }
    if (over && BEGIN.test(text) && !AGAIN.test(textOf(line(index - 2)?.text ?? ''))) {
      break;
    }
    if (AGAIN.test(text) || BEGIN.test(text)) {
      over = AGAIN.test(text);
    } else if (text.trim() && !/^\s/.test(text)) {
      over = true;
      last = text;
    }
    if (text.trim()) {
      end = index + 1;
    }
  }
  return end - start >= LEAST ? { start, end, last } : null;
}

export class Folds {
  #folds: Fold[] = [];
  #opened = new Set<number>();
  /** Of each fold that is closed, in order: its line, and the lines hidden before its end. */
  #closed: { start: number; end: number; hidden: number }[] = [];

  /** Look for tracebacks among lines that have come; say whether there are others now. */
  look(first: number, last: number, line: (index: number) => LogLine | undefined): boolean {
    let begin = first;
    // One that was not whole may go on here.
    while (begin > 0 && begin > first - MOST && line(begin - 1)) {
      begin--;
    }
    // Where its begin is not here any more, it stays as it was.
    begin = this.#folds.find(each => each.start < begin && begin < each.end)?.end ?? begin;
    const found: Fold[] = [];
    for (let index = begin; index < last; index++) {
      const fold = traceback(index, line);
      if (fold) {
        found.push(fold);
        index = fold.end - 1;
      }
    }
    const end = Math.max(last, found.at(-1)?.end ?? 0);
    const others = this.#folds.filter(each => each.end <= begin || each.start >= end);
    const before = this.#folds.filter(each => each.end > begin && each.start < end);
    if (JSON.stringify(before) === JSON.stringify(found)) {
      return false;
    }
    this.#folds = [...others, ...found].sort((a, b) => a.start - b.start);
    this.#count();
    return true;
  }

  clear(): void {
    this.#folds = [];
    this.#opened.clear();
    this.#count();
  }

  /** How many lines are hidden. */
  get hidden(): number {
    return this.#closed.at(-1)?.hidden ?? 0;
  }

  /** Give the traceback that begins at a line. */
  at(index: number): Fold | undefined {
    return this.#folds.find(fold => fold.start === index);
  }

  /** Give the traceback that a line is in. */
  around(index: number): Fold | undefined {
    return this.#folds.find(fold => fold.start <= index && index < fold.end);
  }

  isOpen(start: number): boolean {
    return this.#opened.has(start);
  }

  toggle(start: number): void {
    if (!this.#opened.delete(start)) {
      this.#opened.add(start);
    }
    this.#count();
  }

  /** Open the traceback that a line is in. */
  reveal(index: number): void {
    const fold = this.around(index);
    if (fold && !this.#opened.has(fold.start)) {
      this.toggle(fold.start);
    }
  }

  /** Give the row of a line; one that is hidden is in the row of its traceback. */
  rowOf(index: number): number {
    const at = this.#below(closed => closed.start < index);
    const fold = this.#closed[at - 1];
    if (!fold) {
      return index;
    }
    return index < fold.end
      ? fold.start - (this.#closed[at - 2]?.hidden ?? 0)
      : index - fold.hidden;
  }

  /** Give the line that a row shows. */
  lineOf(row: number): number {
    // The folds whose own row is above this one hide what they hide.
    let low = 0;
    let high = this.#closed.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const fold = this.#closed[middle];
      const own = (fold?.start ?? 0) - (this.#closed[middle - 1]?.hidden ?? 0);
      if (own < row) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return row + (this.#closed[low - 1]?.hidden ?? 0);
  }

  #below(is: (closed: { start: number }) => boolean): number {
    let low = 0;
    let high = this.#closed.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const fold = this.#closed[middle];
      if (fold && is(fold)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  #count(): void {
    let hidden = 0;
    this.#closed = [];
    for (const { start, end } of this.#folds) {
      if (!this.#opened.has(start)) {
        hidden += end - start - 1;
        this.#closed.push({ start, end, hidden });
      }
    }
  }
}
