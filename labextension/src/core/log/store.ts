import type { Live, Opened } from '../base/live';
import { isWithdrawn } from '../base/errors';
import { PAGE, Pages, type LogLine } from './pages';
import type {
  Choice,
  Found,
  FullLine,
  LogMessage,
  LogState,
  Pattern,
  RawLine,
  Source
} from '../base/logprotocol';
import { Search, type Arrival } from './search';
import { byRank } from './sources';
import { Teller } from '../base/observable';

const AGAIN = 100; // milliseconds until what was not to be told yet is asked again
const AT_ONCE = 4; // pages that are asked for at a time

const ALL: Choice = { sources: null, include: null, exclude: null, raw: false };

/** One view of a job's log: how long it is, the lines around what is shown, and a search. */
export class LogStore extends Teller {
  #live: Live;
  #opened!: Opened;
  #unwatch: () => void;
  #pages = new Pages();
  #asked = new Map<number, AbortController>();
  #wanted: [number, number] = [0, 0];
  #reach = 0; // how many lines the server has found of this view since it was opened (again)
  #stop = new AbortController();
  #sources = new Set<Source>();
  #taken = new Set<(first: number, last: number) => void>();
  #restarted = new Set<() => void>();

  readonly key: string;
  /** What the job is called; its key until that is known. */
  name: string;
  choice: Choice = ALL;
  loaded = false;
  /** Whether it is known which logs there are, as far as that can be. */
  listed = false;
  length = 0;
  complete = false;
  ended = false;
  /** When the job began, in seconds since the epoch. */
  began = 0;
  /** What has been printed of lines that are not finished yet, by source. */
  open: readonly { source: Source; text: string }[] = [];
  error: { message: string; hint: string | null } | null = null;
  search: Search | null = null;

  constructor(live: Live, key: string) {
    super();
    this.#live = live;
    this.key = this.name = key;
    this.#unwatch = live.watch(() => this.tell());
    this.#openView();
  }

  /** Whether what is shown is what is so. */
  get current(): boolean {
    return this.#live.status === 'open';
  }

  /** Whether lines are on their way. */
  get asking(): boolean {
    return this.#asked.size > 0;
  }

  get problem() {
    return this.#live.problem;
  }

  /** The logs that there are, those of ranks first. */
  get sources(): Source[] {
    return [...this.#sources].sort(byRank);
  }

  retry(): void {
    this.#live.reconnect();
  }

  line(index: number): LogLine | undefined {
    return this.#pages.line(index);
  }

  /** Call `listener` with the numbers of lines that have come. */
  onLines(listener: (first: number, last: number) => void): () => void {
    this.#taken.add(listener);
    return () => this.#taken.delete(listener);
  }

  /** Call `listener` when the numbers of lines mean other lines from now on. */
  onRestart(listener: () => void): () => void {
    this.#restarted.add(listener);
    return () => this.#restarted.delete(listener);
  }

  /** Have these lines, those before and after them, and as many of the others as there is room. */
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
    before.close(); // not the last one, or the connection would end
    if (search) {
      this.find(search);
    }
    this.tell();
  }

  /** Search from a position on; null ends the search. */
  find(pattern: Pattern | null, from = 0, arrival: Arrival | null = null): void {
    this.search?.dispose();
    this.search = null;
    if (pattern?.pattern) {
      this.search = new Search(this.#live, this.#opened.id, pattern, from, arrival);
      this.search.watch(() => this.tell());
    }
    this.tell();
  }

  /** Give the first line with an error, as far as it was found. */
  firstError(): Promise<Found | null> {
    return this.#place({ what: 'error' });
  }

  /** Give the number of the first line that was seen at a time or later. */
  async atTime(time: number): Promise<number | null> {
    let found = await this.#place({ what: 'time', time });
    while (found && !found.complete) {
      await new Promise(resolve => setTimeout(resolve, AGAIN)); // the log is still being read
      found = await this.#place({ what: 'time', time });
    }
    return found?.index ?? null;
  }

  /** Give a line in full; fails with the server's words. */
  async full(position: number): Promise<FullLine> {
    const request = { op: 'line', view: this.#opened.id, position } as const;
    return await this.#live.ask(request, this.#stop.signal);
  }

  dispose(): void {
    this.#unwatch();
    this.search?.dispose();
    this.#stop.abort();
    this.#asked.forEach(asked => asked.abort());
    this.#opened.close();
  }

  /** Ask where something is; null when that cannot be told, and the words are kept. */
  async #place(what: { what: 'error' } | { what: 'time'; time: number }): Promise<Found | null> {
    const request = { op: 'find' as const, view: this.#opened.id, ...what };
    try {
      return await this.#live.ask(request, this.#stop.signal);
    } catch (error) {
      this.#refused(error);
      return null;
    }
  }

  #refused(error: unknown): void {
    if (!isWithdrawn(error) && error instanceof Error) {
      const { hint } = error as { hint?: string | null };
      this.error = { message: error.message, hint: hint ?? null };
      this.tell();
    }
  }

  #openView(): void {
    const request = { op: 'open' as const, topic: 'log' as const, key: this.key, ...this.choice };
    this.#opened = this.#live.open(request, message => this.#take(message));
  }

  #restart(): void {
    this.#asked.forEach(asked => asked.abort());
    this.#asked.clear();
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
        this.choose({ sources: null }); // as kept of an earlier job of this name, which had them
        return;
      }
      this.error = message;
      this.listed = true;
    } else if (message.kind === 'logs') {
      this.name = message.name;
      this.#sources = new Set(message.logs);
      this.listed = true;
      return; // how many lines there are comes at once, and both are drawn together
    } else if (message.kind === 'log') {
      this.#takeState(message);
    }
    this.#next();
  }

  /** Tell that there is something new, then ask for what is wanted by now. */
  #next(): void {
    this.tell();
    if (!this.asking) {
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
    // After a reconnect the server looks for the lines anew; those that are known are there still.
    this.length = Math.max(this.length, state.length);
    this.complete = state.complete;
    this.ended = state.ended;
    this.began = state.began;
    this.open = Object.entries(state.open).map(([name, text]) => {
      const source = /^\d+$/.test(name) ? Number(name) : name;
      this.#know(source);
      return { source, text };
    });
  }

  #know(source: Source | null): void {
    if (source !== null) {
      this.#sources.add(source);
    }
  }

  /** Ask for what is wanted and not here, what is shown first. */
  #fill(): void {
    const first = Math.max(0, Math.floor(this.#wanted[0] / PAGE));
    const last = Math.floor(Math.max(0, Math.min(this.#wanted[1], this.length - 1)) / PAGE);
    const pages = [first - 1, last + 1];
    for (let page = last; page >= first; page--) {
      pages.unshift(page);
    }
    for (const [page, asked] of [...this.#asked]) {
      if (!pages.includes(page)) {
        asked.abort();
        this.#asked.delete(page);
      }
    }
    for (const page of [...pages].reverse()) {
      this.#pages.touch(page);
    }
    for (const page of pages) {
      const having = this.#pages.having(page);
      const size = Math.min(PAGE, this.#reach - page * PAGE);
      if (page >= 0 && having < size && this.#asked.size < AT_ONCE && !this.#asked.has(page)) {
        void this.#ask(page, page * PAGE + having, PAGE - having);
      }
    }
  }

  async #ask(page: number, start: number, count: number): Promise<void> {
    const asked = new AbortController();
    this.#asked.set(page, asked);
    const request = { op: 'lines', view: this.#opened.id, start, count } as const;
    let lines: RawLine[] | undefined;
    try {
      ({ lines } = await this.#live.ask(request, asked.signal));
    } catch (error) {
      this.#refused(error);
    }
    if (asked.signal.aborted || this.#asked.get(page) !== asked) {
      return;
    }
    this.#asked.delete(page);
    if (lines && lines.length > 0) {
      this.#pages.take(start, lines);
      lines.forEach(([, source]) => this.#know(source));
      this.#taken.forEach(listener => listener(start, start + lines.length));
      this.#next();
    }
  }
}
