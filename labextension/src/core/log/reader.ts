import { isTyping } from '../base/keyboard';
import { Observable } from '../base/observable';
import type { Choice, FullLine, Pattern, Source } from '../base/protocol';
import { Throttle } from '../base/throttle';
import type { Translator } from '../base/translator';
import { textOf } from './ansi';
import { type Fold, Folds } from './folds';
import type { LogLine } from './pages';
import { Scroll } from './scroll';
import type { LogStore } from './store';
import { readTime, TIMES, type Times } from './times';

// Milliseconds between updates while the log grows: nobody reads faster, and typing comes first.
const interval = () => (isTyping() ? 500 : 150);

/** What a row shows. */
export type Shown =
  | { kind: 'line'; index: number; line: LogLine | undefined; fold: Fold | undefined }
  | { kind: 'open'; source: Source; text: string };

/** The state and operations of one log viewer, independent of the DOM. */
export class Reader extends Observable {
  readonly store: LogStore;
  readonly scroll = new Scroll();
  readonly folds = new Folds();
  /** How many lines are shown; new ones are shown once they have been loaded. */
  length = 0;

  #stops: (() => void)[];
  #left: number | null = null; // how many lines were shown when it stopped following
  #goal: number | null = null; // the line to go to, which no traceback may hide
  #back: number | null = null; // the time to go back to when other lines are shown
  #loaded = 0; // up to where lines have been loaded
  #later: ((line: LogLine) => void) | null = null; // for the current line, once it is loaded
  #throttle = new Throttle(() => this.#update(), interval);

  readonly trans: Translator;
  /** The number of the current line, which keys act on. */
  at = 0;
  following = true;
  times: Times = 'clock';
  wrap = true;
  help = false;
  filters = false;
  /** The content of the search field. */
  pattern: Pattern = { pattern: '', regex: false, case: false };
  detail: FullLine | null = null;
  /** What screen readers say next. */
  announcement = '';

  /** Start at the end, and follow. */
  constructor(store: LogStore, trans: Translator) {
    super();
    this.store = store;
    this.trans = trans;
    this.#stops = [
      store.subscribe(() => this.#onChange()),
      store.onLines((first, last) => this.#onLines(first, last)),
      store.onRestart(() => this.#restart())
    ];
    this.#update();
  }

  dispose(): void {
    this.#stops.splice(0).forEach(stop => stop());
    this.#throttle.cancel();
  }

  get rows(): number {
    return this.length - this.folds.hidden + this.store.open.length;
  }

  /** Return what a row shows. */
  shown(row: number): Shown {
    const lines = this.length - this.folds.hidden;
    const open = this.store.open[row - lines];
    if (open) {
      return { kind: 'open', ...open };
    }
    const index = this.folds.lineOf(row);
    return { kind: 'line', index, line: this.store.line(index), fold: this.folds.at(index) };
  }

  /** Return lines as plain text, without times and ranks; null if not all of them are loaded. */
  textOf(first: number, last: number): string | null {
    const texts: string[] = [];
    const { folds } = this;
    const fold = folds.isOpen(last) ? undefined : folds.at(last); // one row, and all its lines
    const end = fold?.lines.at(-1) ?? last;
    for (let index = first; index <= end; index++) {
      const line = this.store.line(index);
      if (!line) {
        return null;
      }
      texts.push(textOf(line.text));
    }
    return texts.join('\n');
  }

  /** How many lines have been added since it stopped following. */
  get unseen(): number {
    const { length } = this.store;
    return this.following ? 0 : Math.max(0, length - (this.#left ?? length));
  }

  resize(height: number): void {
    if (height > 0 && height !== this.scroll.view) {
      this.scroll.view = height;
      this.#update();
    }
  }

  // Following

  /** Stop following, to let the user read. */
  stopFollowing(): void {
    if (this.scroll.most > 0) {
      this.#stay();
    }
  }

  follow(): void {
    this.following = true;
    this.#goal = this.#later = null;
    this.#update();
  }

  /** The scroll bar has moved; while following, only its own moves count. */
  scrolled(bar: number): void {
    const down = bar > this.scroll.bar;
    if (this.following || !this.scroll.moved(bar)) {
      return;
    }
    this.#stay();
    if (down && this.scroll.top >= this.scroll.most - 0.1) {
      this.follow();
      return;
    }
    this.#clamp();
    this.#update();
  }

  /** Correct the scroll bar, after the user has moved it. */
  settle(): void {
    this.scroll.bar = this.scroll.right;
    this.notify();
  }

  // Moving

  /** Move by rows. */
  move(by: number): void {
    const most = this.length - this.folds.hidden - 1;
    const row = this.folds.rowOf(this.at) + by;
    if (by > 0 && row > most) {
      this.follow();
      return;
    }
    this.#stay();
    this.at = this.folds.lineOf(Math.max(0, Math.min(most, row)));
    this.scroll.show(this.folds.rowOf(this.at));
    this.#update();
  }

  /** Extend a selection by rows, within the log; following would move the lines away. */
  extend(by: number): void {
    const last = this.length - this.folds.hidden - 1;
    this.stopFollowing();
    this.move(Math.min(by, last - this.folds.rowOf(this.at)));
  }

  /** Go to a line, and scroll it into view. */
  goTo(index: number): void {
    this.#stay();
    this.#goal = this.at = Math.max(0, index);
    this.folds.reveal(this.at);
    this.scroll.rows = this.rows;
    this.scroll.show(this.folds.rowOf(this.at));
    this.#update();
  }

  /** Make a line the current one. */
  choose(index: number): void {
    this.#stay();
    this.at = index;
    this.notify();
  }

  /** Go to a position in the merged log, or in a container's log, with all filters cleared. */
  goToPosition(position: number, container: string | null = null): void {
    const { sources, include, exclude, raw } = this.store.choice;
    if ((sources?.join() ?? null) !== container || (include ?? exclude) || !raw) {
      const chosen = container === null ? null : [container];
      this.store.choose({ sources: chosen, include: null, exclude: null, raw: true });
    }
    this.goTo(position);
  }

  /** Go to a line by its number among those that are shown, or to a time. */
  async goToPlace(text: string): Promise<void> {
    const { store, trans } = this;
    const number = /^\s*#?(\d+)\s*$/.exec(text.replace(/(?<=\d)[,.\u00a0\u202f](?=\d{3})/g, ''));
    if (number) {
      const last = store.length - 1;
      const index = Math.min(last, Math.max(0, Number(number[1]) - 1));
      this.#goToFound(last < 0 ? null : index, trans.__('The log has no lines'));
      return;
    }
    const time = readTime(text, store.began);
    if (time === null) {
      this.announce(
        trans.__(
          'Enter a line number, a time such as 14:30 or 2026-11-23 14:30, or +90 for seconds since the start.'
        )
      );
      return;
    }
    this.announce(trans.__('Searching for that time…'));
    const index = await store.atTime(time);
    this.#goToFound(index, trans.__('No lines at that time or later'));
  }

  async goToFirstError(): Promise<void> {
    this.announce(this.trans.__('Searching for the first error…'));
    const found = await this.store.firstError();
    this.#goToFound(
      found?.index ?? null,
      (found?.complete ?? true)
        ? this.trans.__('No errors found')
        : this.trans.__(
            'No errors found so far. Not all of the log has been read yet: try again, or search it.'
          )
    );
  }

  #goToFound(index: number | null, otherwise: string): void {
    if (index === null) {
      this.announce(this.store.error?.message ?? otherwise);
    } else {
      this.announcement = '';
      this.goTo(index);
    }
  }

  /** Open or close the traceback at a line. */
  toggle(index = this.at, open?: boolean): void {
    const fold = this.folds.around(index);
    if (fold && open !== this.folds.isOpen(fold.start)) {
      this.#stay();
      this.at = fold.start;
      this.#keepTop(() => this.folds.toggle(fold.start));
      this.#update();
    }
  }

  // Searching and choosing

  search(pattern: Pattern | null): void {
    const from = this.store.line(this.at)?.position ?? 0;
    // At the end of the log the nearest hit is the last one.
    this.store.find(pattern, from, { back: this.following, then: ({ index }) => this.goTo(index) });
  }

  async next(back: boolean): Promise<void> {
    const { search } = this.store;
    const hit = await search?.next(back, this.store.line(this.at)?.position);
    if (hit && search === this.store.search) {
      this.goTo(hit.index);
    }
  }

  /** Show other lines, close to the time of the current one. */
  show(change: Partial<Choice>): void {
    const time = this.following ? null : (this.#back ?? this.store.line(this.at)?.time ?? null);
    this.store.choose(change);
    this.#back = time;
  }

  // What is shown besides

  /** Do something with the current line: now, or once it is loaded. */
  withLine(act: (line: LogLine) => void): void {
    const line = this.store.line(this.at);
    this.#later = line ? null : act;
    if (line) {
      act(line);
    }
  }

  openDetail(): void {
    this.withLine(line => void this.#showInFull(line));
  }

  async #showInFull(line: LogLine): Promise<void> {
    try {
      this.set({ detail: await this.store.full(line.position) });
    } catch (error) {
      this.announce(error instanceof Error ? error.message : String(error));
    }
  }

  set(change: Partial<Pick<Reader, 'wrap' | 'help' | 'filters' | 'detail' | 'pattern'>>): void {
    Object.assign(this, change);
    this.notify();
  }

  /** Have screen readers say something. */
  announce(text: string): void {
    this.announcement = text;
    this.notify();
  }

  nextTimes(): void {
    this.times = TIMES[(TIMES.indexOf(this.times) + 1) % TIMES.length] ?? 'clock';
    this.notify();
  }

  #stay(): void {
    this.#goal = this.#back = this.#later = null;
    if (this.following) {
      this.following = false;
      this.#left = this.store.complete ? this.length : null;
      this.notify();
    }
  }

  #onLines(first: number, last: number): void {
    const none = this.#loaded === 0;
    this.#loaded = Math.max(this.#loaded, last);
    this.#keepTop(() => {
      this.folds.update(first, last, index => this.store.line(index));
      if (this.#goal !== null) {
        this.folds.reveal(this.#goal);
      }
    });
    if (this.#goal !== null) {
      this.scroll.show(this.folds.rowOf(this.#goal));
    }
    if (none) {
      this.#update(); // the first lines are shown at once
    }
    if (this.#later) {
      this.withLine(this.#later);
    }
  }

  #restart(): void {
    this.folds.clear();
    this.#goal = this.#left = this.#later = null;
    this.length = this.#loaded = this.at = 0;
    this.scroll.rows = 0;
    this.scroll.to(0);
  }

  /** Keep the current line in view. */
  #clamp(): void {
    const { top, page } = this.scroll;
    const first = Math.ceil(top);
    const row = Math.max(first, Math.min(first + page - 1, this.folds.rowOf(this.at)));
    this.at = Math.max(0, Math.min(this.length - 1, this.folds.lineOf(row)));
  }

  /**
   * Change the rows, but keep the line at the top in its place; of a traceback that this opens, as
   * much as possible is scrolled into view.
   */
  #keepTop(work: (() => Fold | null) | (() => void)): void {
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

  /** React to a change of the log. While following, updates are throttled and wait for the lines. */
  #onChange(): void {
    if (this.following && this.store.current && isTyping()) {
      this.#throttle.request(); // new lines are requested no more often, either
      return;
    }
    this.#adjust();
    if (!this.following || !this.store.current) {
      this.notify();
    } else if (!this.store.loading) {
      this.#throttle.request();
    }
  }

  #update(): void {
    this.#adjust();
    this.notify();
  }

  /** Update the position in the log as it is now, and request the lines in view. */
  #adjust(): void {
    const { store, scroll } = this;
    // While following, show the lines that are loaded rather than room for those that are not.
    const wait = this.following && this.length > 0 && this.length < store.length && !store.error;
    this.length = wait ? Math.min(store.length, Math.max(this.length, this.#loaded)) : store.length;
    this.#left ??= store.complete ? store.length : null;
    scroll.rows = this.rows;
    if (store.loaded && store.complete && this.#back !== null) {
      const time = this.#back;
      this.#back = null;
      void store.atTime(time).then(index => index !== null && this.goTo(index));
    }
    if (this.following) {
      this.at = Math.max(0, this.length - 1);
      scroll.toEnd();
    } else if (this.#goal !== null && store.length > this.#goal && scroll.top === 0) {
      scroll.show(this.folds.rowOf(this.#goal)); // the log has become long enough
    } else if (scroll.top > scroll.most) {
      scroll.to(scroll.most);
    }
    const [first, last] = scroll.seen;
    const end = Math.max(first, Math.min(last, this.length - this.folds.hidden));
    const late = store.length - this.length;
    if (late === 0) {
      store.need(this.folds.lineOf(first), this.folds.lineOf(end));
    } else if (!store.loading) {
      // One request at a time: a slow server must be able to answer before newer lines are requested.
      store.need(this.folds.lineOf(first) + late, store.length);
    }
  }
}
