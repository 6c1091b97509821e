import { Paced } from '../base/throttle';
import { typing } from '../base/keyboard';
import type { Words } from '../base/translator';
import type { LogLine } from './pages';
import type { Choice, FullLine, Pattern } from '../base/logprotocol';
import { Rows } from './rows';
import type { LogStore } from './store';
import { TIMES, type Times } from './times';

// Milliseconds between two drawings of a log that grows: nobody reads faster, least who types.
const pace = () => (typing() ? 500 : 150);

/** What one person sees of a log, and does with it. It knows no document. */
export class Reader extends Rows {
  #stops: (() => void)[];
  #left: number | null = null; // how many lines were shown when it stopped to follow
  #goal: number | null = null; // the line that it was told to go to, which no traceback may hide
  #back: number | null = null; // the time to go back to when other lines are shown
  #here = 0; // up to where lines have come
  #later: ((line: LogLine) => void) | null = null; // for the line that keys act on, when it comes
  #paced = new Paced(() => this.#update(), pace);

  readonly words: Words;
  /** The number of the line that keys act on. */
  at = 0;
  following = true;
  times: Times = 'clock';
  wrap = true;
  help = false;
  filters = false;
  /** What is searched for, or would be. */
  pattern: Pattern = { pattern: '', regex: false, case: false };
  detail: FullLine | null = null;
  /** The last thing that is worth saying aloud. */
  said = '';

  /** Begin at the end, and follow. */
  constructor(store: LogStore, words: Words) {
    super(store);
    this.words = words;
    this.#stops = [
      store.watch(() => this.#grown()),
      store.onLines((first, last) => this.#look(first, last)),
      store.onRestart(() => this.#restart())
    ];
    this.#update();
  }

  dispose(): void {
    this.#stops.splice(0).forEach(stop => stop());
    this.#paced.dispose();
  }

  /** How many lines have come since it stopped to follow. */
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

  /** Stop to follow, since somebody wants to look at what is there. */
  letGo(): void {
    if (this.scroll.most > 0) {
      this.#stay();
    }
  }

  follow(): void {
    this.following = true;
    this.#goal = this.#later = null;
    this.#update();
  }

  /** The scroll bar is at another place; where it follows only its own moves count. */
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
    this.#into();
    this.#update();
  }

  /** Put the scroll bar where it belongs, after somebody has moved it. */
  settle(): void {
    this.scroll.bar = this.scroll.right;
    this.tell();
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

  /** Go to a line, and see it. */
  goTo(index: number): void {
    this.#stay();
    this.#goal = this.at = Math.max(0, index);
    this.folds.reveal(this.at);
    this.scroll.rows = this.rows;
    this.scroll.show(this.folds.rowOf(this.at));
    this.#update();
  }

  /** Make a line the one that keys act on. */
  choose(index: number): void {
    this.#stay();
    this.at = index;
    this.tell();
  }

  /** Go to a line by its position in the merged log, or in a container's: all lines are shown. */
  goToPosition(position: number, container: string | null = null): void {
    const { sources, include, exclude, raw } = this.store.choice;
    if ((sources?.join() ?? null) !== container || (include ?? exclude) || !raw) {
      const chosen = container === null ? null : [container];
      this.store.choose({ sources: chosen, include: null, exclude: null, raw: true });
    }
    this.goTo(position);
  }

  /** Open or close the traceback that begins at the line. */
  toggle(index = this.at, open?: boolean): void {
    const fold = this.folds.around(index);
    if (fold && open !== this.folds.isOpen(fold.start)) {
      this.#stay();
      this.at = fold.start;
      this.hold(() => this.folds.toggle(fold.start));
      this.#update();
    }
  }

  // Searching and choosing

  search(pattern: Pattern | null): void {
    const from = this.store.line(this.at)?.position ?? 0;
    // At the end there is nothing to come: the last one is the nearest.
    this.store.find(pattern, from, { back: this.following, then: ({ index }) => this.goTo(index) });
  }

  async next(back: boolean): Promise<void> {
    const { search } = this.store;
    const hit = await search?.next(back, this.store.line(this.at)?.position);
    if (hit && search === this.store.search) {
      this.goTo(hit.index);
    }
  }

  /** Show other lines, as near as can be to the time that one looks at. */
  show(change: Partial<Choice>): void {
    const time = this.following ? null : (this.#back ?? this.store.line(this.at)?.time ?? null);
    this.store.choose(change);
    this.#back = time;
  }

  // What is shown besides

  /** Do something with the line that keys act on: at once, or when it has come. */
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
      this.say(error instanceof Error ? error.message : String(error));
    }
  }

  set(change: Partial<Pick<Reader, 'wrap' | 'help' | 'filters' | 'detail' | 'pattern'>>): void {
    Object.assign(this, change);
    this.tell();
  }

  /** Say something aloud. */
  say(text: string): void {
    this.said = text;
    this.tell();
  }

  nextTimes(): void {
    this.times = TIMES[(TIMES.indexOf(this.times) + 1) % TIMES.length] ?? 'clock';
    this.tell();
  }

  #stay(): void {
    this.#goal = this.#back = this.#later = null;
    if (this.following) {
      this.following = false;
      this.#left = this.store.complete ? this.length : null;
      this.tell();
    }
  }

  #look(first: number, last: number): void {
    const none = this.#here === 0;
    this.#here = Math.max(this.#here, last);
    this.hold(() => {
      this.folds.look(first, last, index => this.store.line(index));
      if (this.#goal !== null) {
        this.folds.reveal(this.#goal);
      }
    });
    if (this.#goal !== null) {
      this.scroll.show(this.folds.rowOf(this.#goal));
    }
    if (none) {
      this.#update(); // nobody waits for the first lines longer than they take
    }
    if (this.#later) {
      this.withLine(this.#later);
    }
  }

  #restart(): void {
    this.folds.clear();
    this.#goal = this.#left = this.#later = null;
    this.length = this.#here = this.at = 0;
    this.scroll.rows = 0;
    this.scroll.to(0);
  }

  /** Keep the line that keys act on among those that are seen. */
  #into(): void {
    const { top, page } = this.scroll;
    const first = Math.ceil(top);
    const row = Math.max(first, Math.min(first + page - 1, this.folds.rowOf(this.at)));
    this.at = Math.max(0, Math.min(this.length - 1, this.folds.lineOf(row)));
  }

  /** The log has changed. Who follows it sees that when the lines are here, and not too often. */
  #grown(): void {
    if (this.following && this.store.current && typing()) {
      this.#paced.ask(); // new lines are asked for no more often, either
      return;
    }
    this.#adjust();
    if (!this.following || !this.store.current) {
      this.tell();
    } else if (!this.store.asking) {
      this.#paced.ask();
    }
  }

  #update(): void {
    this.#adjust();
    this.tell();
  }

  /** Be where one should be in the log as it is now, and have the lines that are seen there. */
  #adjust(): void {
    const { store, scroll } = this;
    // Who follows sees the lines that are here, rather than room for those that are on their way.
    const wait = this.following && this.length > 0 && this.length < store.length && !store.error;
    this.length = wait ? Math.min(store.length, Math.max(this.length, this.#here)) : store.length;
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
    } else if (!store.asking) {
      // One after the other: a slow server must get round to answer before newer lines are asked for.
      store.need(this.folds.lineOf(first) + late, store.length);
    }
  }
}
