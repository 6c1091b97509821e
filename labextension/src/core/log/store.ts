import { type ErrorInfo, isAborted, toServerError } from '../base/errors';
import type { Live, Subscription } from '../base/live';
import { Observable } from '../base/observable';
import type {
  Choice,
  Found,
  FullLine,
  LogMessage,
  LogState,
  Pattern,
  RawLine,
  Source
} from '../base/protocol';
import { type LogLine, PAGE, Pages } from './pages';
import { type Arrival, Search } from './search';

const RETRY = 100; // milliseconds until a query is repeated whose answer was not complete
const CONCURRENT = 4; // requests for pages at a time

const ALL: Choice = { sources: null, include: null, exclude: null, raw: false };

/** One view of a job's log: its length, the lines around those shown, and a search. */
export class LogStore extends Observable {
  #live: Live;
  #opened!: Subscription;
  #unsubscribe: () => void;
  #pages = new Pages();
  #pending = new Map<number, AbortController>();
  #wanted: [number, number] = [0, 0];
  #reach = 0; // how many lines of this view the server has found since it was opened (again)
  #stop = new AbortController();
  #sources = new Set<Source>();
  #taken = new Set<(first: number, last: number) => void>();
  #restarted = new Set<() => void>();

  readonly key: string;
  /** The job's name; its key until the name is known. */
  name: string;
  choice: Choice = ALL;
  loaded = false;
  /** Whether the list of logs has arrived, or cannot. */
  listed = false;
  length = 0;
  complete = false;
  ended = false;
  /** When the job started, in seconds since the epoch. */
  began = 0;
  /** The beginnings of lines that are not finished yet, by source. */
  open: readonly { source: Source; text: string }[] = [];
  error: ErrorInfo | null = null;
  search: Search | null = null;

  constructor(live: Live, key: string) {
    super();
    this.#live = live;
    this.key = this.name = key;
    this.#unsubscribe = live.subscribe(() => this.notify());
    this.#openView();
  }

  /** Whether the state is up to date. */
  get current(): boolean {
    return this.#live.status === 'open';
  }

  /** Whether lines are being loaded. */
  get loading(): boolean {
    return this.#pending.size > 0;
  }

  get problem() {
    return this.#live.problem;
  }

  /** All logs, those of ranks first. */
  get sources(): Source[] {
    return [...this.#sources].sort(byRank);
  }

  retry(): void {
    this.#live.reconnect();
  }

  line(index: number): LogLine | undefined {
    return this.#pages.line(index);
  }

  /** Call `listener` with the numbers of lines that have been loaded. */
  onLines(listener: (first: number, last: number) => void): () => void {
    this.#taken.add(listener);
    return () => this.#taken.delete(listener);
  }

  /** Call `listener` when numbers refer to other lines from now on. */
  onRestart(listener: () => void): () => void {
    this.#restarted.add(listener);
    return () => this.#restarted.delete(listener);
  }

  /** Load these lines, and those before and after them. */
  need(first: number, last: number): void {
    this.#wanted = [first, last];
    this.#fill();
  }

  /** Show other lines of the log. */
  choose(change: Partial<Choice>): void {
    const search = this.search?.pattern;
    this.choice = { ...this.choice, ...change };
    this.find(null);
    this.#stop.abort();
    this.#stop = new AbortController();
    this.#restart();
    const before = this.#opened;
    this.#openView();
    before.close(); // after the new one: closing the last topic ends the connection
    if (search) {
      this.find(search);
    }
    this.notify();
  }

  /** Search from a position on; null ends the search. */
  find(pattern: Pattern | null, from = 0, arrival: Arrival | null = null): void {
    this.search?.dispose();
    this.search = null;
    if (pattern?.pattern) {
      this.search = new Search(this.#live, this.#opened.id, pattern, from, arrival);
      this.search.subscribe(() => this.notify());
    }
    this.notify();
  }

  /** Find the first line with an error, as far as the log has been read. */
  firstError(): Promise<Found | null> {
    return this.#find({ what: 'error' });
  }

  /** Return the number of the first line at a time or later. */
  async atTime(time: number): Promise<number | null> {
    let found = await this.#find({ what: 'time', time });
    while (found && !found.complete) {
      await new Promise(resolve => setTimeout(resolve, RETRY)); // the log is still being read
      found = await this.#find({ what: 'time', time });
    }
    return found?.index ?? null;
  }

  /** Return a line in full; throws a `ServerError`. */
  async full(position: number): Promise<FullLine> {
    const request = { op: 'line', view: this.#opened.id, position } as const;
    return await this.#live.ask(request, this.#stop.signal);
  }

  dispose(): void {
    this.#unsubscribe();
    this.search?.dispose();
    this.#stop.abort();
    this.#pending.forEach(controller => controller.abort());
    this.#opened.close();
  }

  /** Ask where something is; null after an error, which is kept. */
  async #find(what: { what: 'error' } | { what: 'time'; time: number }): Promise<Found | null> {
    const request = { op: 'find' as const, view: this.#opened.id, ...what };
    try {
      return await this.#live.ask(request, this.#stop.signal);
    } catch (error) {
      this.#onError(error);
      return null;
    }
  }

  #onError(error: unknown): void {
    if (!isAborted(error)) {
      this.error = toServerError(error);
      this.notify();
    }
  }

  #openView(): void {
    const request = { op: 'open' as const, topic: 'log' as const, key: this.key, ...this.choice };
    this.#opened = this.#live.open(request, message => this.#take(message));
  }

  #restart(): void {
    this.#pending.forEach(controller => controller.abort());
    this.#pending.clear();
    this.#pages.clear();
    this.loaded = this.complete = false;
    this.length = this.#reach = 0;
    this.open = [];
    this.error = null;
    this.#restarted.forEach(listener => listener());
  }

  #take(message: LogMessage): void {
    if (message.kind === 'error') {
      const { sources, include, exclude } = this.choice;
      if (!this.loaded && sources !== null && include === null && exclude === null) {
        this.choose({ sources: null }); // stored for an earlier job of this name, which had them
        return;
      }
      this.error = message;
      this.listed = true;
    } else if (message.kind === 'logs') {
      this.name = message.name;
      this.#sources = new Set(message.logs);
      this.listed = true;
      return; // the length follows at once, and both are shown together
    } else if (message.kind === 'log') {
      this.#takeState(message);
    }
    this.#next();
  }

  /** Notify, then request what is needed by now. */
  #next(): void {
    this.notify();
    if (!this.loading) {
      this.#fill();
    }
  }

  #takeState(state: LogState): void {
    const shorter = state.complete && state.length < this.length;
    if (this.loaded && (shorter || state.began !== this.began)) {
      this.#restart(); // another job of the same name
    }
    this.loaded = true;
    this.error = null;
    this.#reach = state.length;
    // After a reconnect the server counts the lines again; those that are known still exist.
    this.length = Math.max(this.length, state.length);
    this.complete = state.complete;
    this.ended = state.ended;
    this.began = state.began;
    this.open = Object.entries(state.open).map(([name, text]) => {
      const source = /^\d+$/.test(name) ? Number(name) : name;
      this.#addSource(source);
      return { source, text };
    });
  }

  #addSource(source: Source | null): void {
    if (source !== null) {
      this.#sources.add(source);
    }
  }

  /** Request what is needed and not loaded, the lines in view first. */
  #fill(): void {
    const first = Math.max(0, Math.floor(this.#wanted[0] / PAGE));
    const last = Math.floor(Math.max(0, Math.min(this.#wanted[1], this.length - 1)) / PAGE);
    const pages = [first - 1, last + 1];
    for (let page = last; page >= first; page--) {
      pages.unshift(page);
    }
    for (const [page, controller] of [...this.#pending]) {
      if (!pages.includes(page)) {
        controller.abort();
        this.#pending.delete(page);
      }
    }
    for (const page of [...pages].reverse()) {
      this.#pages.touch(page);
    }
    for (const page of pages) {
      const having = this.#pages.having(page);
      const size = Math.min(PAGE, this.#reach - page * PAGE);
      if (
        page >= 0 &&
        having < size &&
        this.#pending.size < CONCURRENT &&
        !this.#pending.has(page)
      ) {
        void this.#ask(page, page * PAGE + having, PAGE - having);
      }
    }
  }

  async #ask(page: number, start: number, count: number): Promise<void> {
    const controller = new AbortController();
    this.#pending.set(page, controller);
    const request = { op: 'lines', view: this.#opened.id, start, count } as const;
    let lines: RawLine[] | undefined;
    try {
      ({ lines } = await this.#live.ask(request, controller.signal));
    } catch (error) {
      this.#onError(error);
    }
    if (controller.signal.aborted || this.#pending.get(page) !== controller) {
      return;
    }
    this.#pending.delete(page);
    if (lines && lines.length > 0) {
      this.#pages.take(start, lines);
      lines.forEach(([, source]) => this.#addSource(source));
      this.#taken.forEach(listener => listener(start, start + lines.length));
      this.#next();
    }
  }
}

/** Sort ranks first, by number, then containers, by name. */
function byRank(a: Source, b: Source): number {
  if (typeof a === 'number' && typeof b === 'number') {
    return a - b;
  }
  return typeof a === typeof b ? (String(a) < String(b) ? -1 : 1) : typeof a === 'number' ? -1 : 1;
}
