/** Tracebacks that are shown as one row each, and the row of each line then. */

import type { Source } from '../base/protocol';
import { textOf } from './ansi';
import { type LogLine, NOTE } from './pages';

const LEAST = 3;
const MOST = 1000; // unfinished tracebacks
const REACH = 4000; // lines after its start, of any rank, that are searched

export interface Fold {
  /** The number of the first line, which stays. */
  start: number;
  /** The numbers of all its lines; those of other ranks between them are not hidden. */
  lines: readonly number[];
  /** The last line of the traceback, the error. */
  last: string;
}

/** Consecutive hidden lines. */
interface Run {
  from: number;
  to: number;
  /** How many lines are hidden up to its end. */
  hidden: number;
}

type Lines = (index: number) => LogLine | undefined;

export class Folds {
  #folds = new Map<number, Fold>();
  #of = new Map<number, Fold>(); // by each of their lines
  #opened = new Set<number>();
  #unfinished: number[] = []; // starts of those that may continue in lines that are not loaded yet
  #runs: Run[] = [];

  /** Find tracebacks among loaded lines; return whether that changed anything. */
  update(first: number, last: number, line: Lines): boolean {
    const goOn = this.#unfinished.filter(
      start => start < first && first < start + REACH && line(start)
    );
    const begin = Math.min(first, ...goOn);
    const going = new Map<Source, Traceback>();
    const found: Traceback[] = [];
    const stopped: number[] = [];
    let index = begin;
    for (; index < last || (going.size > 0 && index < last + REACH); index++) {
      const each = line(index);
      if (each) {
        this.#take(each, index, index < last, going, found);
      } else {
        going.forEach(({ lines }) => stopped.push(lines[0] ?? 0));
        going.clear();
      }
    }
    const others = this.#unfinished.filter(start => start < begin || start >= index);
    this.#unfinished = [...others, ...stopped].slice(-MOST);
    const changed = found.map(each => this.#put(each)).some(Boolean);
    if (changed) {
      this.#count();
    }
    return changed;
  }

  clear(): void {
    this.#folds.clear();
    this.#of.clear();
    this.#opened.clear();
    this.#unfinished = [];
    this.#count();
  }

  /** How many lines are hidden. */
  get hidden(): number {
    return this.#runs.at(-1)?.hidden ?? 0;
  }

  /** Return the traceback that starts at a line. */
  at(index: number): Fold | undefined {
    return this.#folds.get(index);
  }

  /** Return the traceback that a line belongs to. */
  around(index: number): Fold | undefined {
    return this.#of.get(index);
  }

  isOpen(start: number): boolean {
    return this.#opened.has(start);
  }

  /** Open or close a traceback; return it if it is open now. */
  toggle(start: number): Fold | null {
    const opens = !this.#opened.delete(start);
    if (opens) {
      this.#opened.add(start);
    }
    this.#count();
    return opens ? (this.at(start) ?? null) : null;
  }

  /** Open the traceback that a line belongs to. */
  reveal(index: number): void {
    const fold = this.around(index);
    if (fold && !this.#opened.has(fold.start)) {
      this.toggle(fold.start);
    }
  }

  /** Return the row of a line; a hidden line is in the row of its traceback. */
  rowOf(index: number): number {
    const fold = this.around(index);
    const shown = fold && !this.#opened.has(fold.start) ? fold.start : index;
    return shown - this.#hiddenWhere(({ from }) => from < shown);
  }

  /** Return the line that a row shows. */
  lineOf(row: number): number {
    // Count the runs whose next visible row, `from` less the lines hidden before, is at most `row`.
    return row + this.#hiddenWhere(({ from, to, hidden }) => from - (hidden - (to - from)) <= row);
  }

  /** Return how many lines are hidden in the first runs, those that satisfy a condition. */
  #hiddenWhere(is: (run: Run) => boolean): number {
    let low = 0;
    let high = this.#runs.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const run = this.#runs[middle];
      if (run && is(run)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return this.#runs[low - 1]?.hidden ?? 0;
  }

  /** Add a line to the open traceback of its rank, or start one with it. */
  #take(
    { text, source }: LogLine,
    index: number,
    begins: boolean,
    going: Map<Source, Traceback>,
    found: Traceback[]
  ): void {
    if (source === null) {
      return; // a gap belongs to no rank
    }
    const open = going.get(source);
    const sanitize = open || (begins && mayBegin(text)) ? textOf(text) : '';
    if (open) {
      const far = index - (open.lines[0] ?? 0) >= REACH;
      if (!far && !NOTE.test(text) && open.take(index, sanitize)) {
        return;
      }
      going.delete(source);
    }
    const next = begins && sanitize ? Traceback.at(index, sanitize) : null;
    if (next) {
      going.set(source, next);
      found.push(next);
    }
  }

  /** Store a traceback; return whether it changed. */
  #put({ lines, last }: Traceback): boolean {
    const [start = 0] = lines;
    const before = this.#folds.get(start);
    // One that is known to be longer has lines that are not loaded any more.
    const known = this.#of.get(start);
    if (lines.length < LEAST || lines.length <= (before?.lines.length ?? 0)) {
      return false;
    }
    if (known && known !== before) {
      return false; // its start is not loaded any more: it is the rest of a chained traceback
    }
    const fold = { start, lines, last };
    this.#folds.set(start, fold);
    lines.forEach(index => {
      const part = this.#of.get(index);
      if (part && part.start !== start) {
        this.#folds.delete(part.start); // what seemed to start here is a continuation
      }
      this.#of.set(index, fold);
    });
    return true;
  }

  #count(): void {
    const hidden: number[] = [];
    for (const { start, lines } of this.#folds.values()) {
      if (!this.#opened.has(start)) {
        hidden.push(...lines.slice(1));
      }
    }
    hidden.sort((a, b) => a - b);
    this.#runs = [];
    for (const [index, at] of hidden.entries()) {
      const run = this.#runs.at(-1);
      if (run?.to === at) {
        run.to++;
        run.hidden++;
      } else {
        this.#runs.push({ from: at, to: at + 1, hidden: index + 1 });
      }
    }
  }
}

const BEGIN = /^\s*(?:\+ )?(?:Exception Group )?Traceback \(most recent call last\):\s*$/;
const CHAINED = /^(?:During handling of the above|The above exception was the direct cause)/;
const LONGEST = 1000; // lines of a traceback

/** Return whether a traceback may begin with this text: cheap, as it is called for every line. */
function mayBegin(text: string): boolean {
  return text.includes('Traceback');
}

/** A traceback while its lines are read; lines of other ranks may be between them. */
class Traceback {
  /** The numbers of its lines. */
  readonly lines: number[];
  /** Its last line, the error. */
  last = '';
  #over = false; // its error has been read
  #chained = false; // a chained traceback was announced, which belongs to it
  #blank: number[] = []; // empty lines, which belong to it only if it continues

  private constructor(start: number) {
    this.lines = [start];
  }

  /** Start one at a line; null if none starts there. */
  static at(index: number, text: string): Traceback | null {
    return BEGIN.test(text) ? new Traceback(index) : null;
  }

  /** Take the next line of its rank; return whether it belongs to it. */
  take(index: number, text: string): boolean {
    if (!text.trim()) {
      this.#blank.push(index);
      return true;
    }
    const begin = BEGIN.test(text);
    const chained = CHAINED.test(text);
    const foreign = this.#over && (begin ? !this.#chained : !chained);
    if (foreign || this.lines.length >= LONGEST) {
      return false;
    }
    this.lines.push(...this.#blank.splice(0), index);
    if (begin || chained) {
      this.#over = chained;
      this.#chained = chained;
    } else if (!/^\s/.test(text)) {
      this.#over = true;
      this.last = text;
    }
    return true;
  }
}
