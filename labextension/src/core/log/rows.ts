import { Folds, type Fold } from './folds';
import type { LogLine } from './pages';
import type { Source } from '../base/logprotocol';
import { Scroll } from './scroll';
import type { LogStore } from './store';
import { Teller } from '../base/observable';

/** What a row shows. */
export type Shown =
  | { kind: 'line'; index: number; line: LogLine | undefined; fold: Fold | undefined }
  | { kind: 'open'; source: Source; text: string };

/** The rows of a log, and which of them are seen. */
export class Rows extends Teller {
  readonly store: LogStore;
  readonly scroll = new Scroll();
  readonly folds = new Folds();
  /** How many lines are shown; those that have just been printed come when they are here. */
  length = 0;

  constructor(store: LogStore) {
    super();
    this.store = store;
  }

  get rows(): number {
    return this.length - this.folds.hidden + this.store.open.length;
  }

  /** Tell what a row shows. */
  shown(row: number): Shown {
    const lines = this.length - this.folds.hidden;
    const open = this.store.open[row - lines];
    if (open) {
      return { kind: 'open', ...open };
    }
    const index = this.folds.lineOf(row);
    return { kind: 'line', index, line: this.store.line(index), fold: this.folds.at(index) };
  }

  /**
   * Do something to the rows, with the line at the top where it is; where that opens a traceback,
   * as much of it as can be is brought into sight.
   */
  protected hold(work: (() => Fold | null) | (() => void)): void {
    const row = Math.floor(this.scroll.top);
    const rest = this.scroll.top - row;
    const top = this.folds.lineOf(row);
    const opened = work();
    this.scroll.rows = this.rows;
    this.scroll.to(this.folds.rowOf(top) + rest);
    if (opened) {
      const first = this.folds.rowOf(opened.start);
      const last = this.folds.rowOf(opened.lines.at(-1) ?? opened.start);
      this.scroll.show(Math.min(last, first + this.scroll.page - 1));
    }
  }
}
