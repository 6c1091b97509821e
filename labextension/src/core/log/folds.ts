/** Tracebacks that are shown as one row each, and which row a line is in then. */

import { textOf } from './ansi';
import { SAYS, type LogLine } from './pages';
import type { Source } from '../base/logprotocol';
import { mayBegin, Traceback } from './traceback';

const LEAST = 3;
const MOST = 1000; // tracebacks that may go on
const REACH = 4000; // lines after its begin, of whichever rank, that are looked at

export interface Fold {
  /** The number of the first line, which stays. */
  start: number;
  /** The numbers of all its lines; those of other ranks between them are not hidden. */
  lines: readonly number[];
  /** What the traceback says at its end. */
  last: string;
}

/** Lines next to each other that are hidden. */
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
  #unfinished: number[] = []; // begins of those that may go on in lines that are not here yet
  #runs: Run[] = [];

  /** Look for tracebacks among lines that have come; say whether there are others now. */
  look(first: number, last: number, line: Lines): boolean {
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

  /** Give the traceback that begins at a line. */
  at(index: number): Fold | undefined {
    return this.#folds.get(index);
  }

  /** Give the traceback that a line is in. */
  around(index: number): Fold | undefined {
    return this.#of.get(index);
  }

  isOpen(start: number): boolean {
    return this.#opened.has(start);
  }

  /** Open or close a traceback; give it when it is open now. */
  toggle(start: number): Fold | null {
    const opens = !this.#opened.delete(start);
    if (opens) {
      this.#opened.add(start);
    }
    this.#count();
    return opens ? (this.at(start) ?? null) : null;
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
    const fold = this.around(index);
    const shown = fold && !this.#opened.has(fold.start) ? fold.start : index;
    return shown - this.#hiddenWhere(({ from }) => from < shown);
  }

  /** Give the line that a row shows. */
  lineOf(row: number): number {
    // What is hidden before a run and the run's own row say where the lines after it are.
    return row + this.#hiddenWhere(({ from, to, hidden }) => from - (hidden - (to - from)) <= row);
  }

  /** Give how many lines are hidden in the first runs, those for which something is so. */
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

  /** Give a line to the traceback of its rank that goes on, or begin one with it. */
  #take(
    { text, source }: LogLine,
    index: number,
    begins: boolean,
    going: Map<Source, Traceback>,
    found: Traceback[]
  ): void {
    if (source === null) {
      return; // a gap is no rank's own
    }
    const open = going.get(source);
    const plain = open || (begins && mayBegin(text)) ? textOf(text) : '';
    if (open) {
      const far = index - (open.lines[0] ?? 0) >= REACH;
      if (!far && !SAYS.test(text) && open.take(index, plain)) {
        return;
      }
      going.delete(source);
    }
    const next = begins && plain ? Traceback.at(index, plain) : null;
    if (next) {
      going.set(source, next);
      found.push(next);
    }
  }

  /** Keep what was found; say whether it is another than before. */
  #put({ lines, last }: Traceback): boolean {
    const [start = 0] = lines;
    const before = this.#folds.get(start);
    // One that is known to be longer has lines that are not here any more.
    const known = this.#of.get(start);
    if (lines.length < LEAST || lines.length <= (before?.lines.length ?? 0)) {
      return false;
    }
    if (known && known !== before) {
      return false; // its begin is not here any more, and it goes on with another traceback
    }
    const fold = { start, lines, last };
    this.#folds.set(start, fold);
    lines.forEach(index => {
      const part = this.#of.get(index);
      if (part && part.start !== start) {
        this.#folds.delete(part.start); // what seemed to begin here only goes on
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
