/** What the views show: kept in step with the server over `Live`. */

import type { Live, Opened } from '../base/live';
import { Metrics } from '../plots/metrics';
import type {
  Detail,
  Glance,
  JobEvent,
  Message,
  Problem,
  Request,
  Row,
  TailLine
} from '../base/protocol';
import { Teller } from '../base/observable';

/** What a topic shows, as long as the store is not disposed of. */
abstract class LiveStore extends Teller {
  protected readonly live: Live;
  #request: Request;
  #opened: Opened | null = null;
  #unwatch: () => void;
  /** What the server said when it could not give it. */
  error: { message: string; hint: string | null } | null = null;

  constructor(live: Live, request: Request) {
    super();
    this.live = live;
    this.#request = request;
    this.#unwatch = live.watch(() => this.tell());
    this.wake();
  }

  /** Hear nothing more, until it wakes; what is known stays. */
  rest(): void {
    this.#opened?.close();
    this.#opened = null;
  }

  /** Hear again what is so. */
  wake(): void {
    this.#opened ??= this.live.open(this.#request, message => this.take(message));
  }

  /** Ask again for a job that the server did not know: there may be another one of its name. */
  lookAgain(): void {
    if (this.error) {
      const before = this.#opened;
      this.#opened = null;
      this.wake();
      before?.close(); // by now it is not the last one, whose end would be that of the connection
    }
  }

  /** Whether what is shown is what is so. */
  get current(): boolean {
    return this.live.status === 'open';
  }

  get problem(): Problem | null {
    return this.live.problem;
  }

  /** Connect now, rather than at the next attempt. */
  retry(): void {
    this.live.reconnect();
  }

  dispose(): void {
    this.#unwatch();
    this.rest();
  }

  protected abstract take(message: Message): void;
}

/** Seconds after its end in which a job that comes into the list is still news. */
const RECENT = 60;

/** All jobs, newest first. A row that did not change stays the same object. */
export class JobsStore extends LiveStore {
  #rows = new Map<string, Row>();
  #sorted: readonly Row[] = [];
  #ended = new Set<(row: Row) => void>();

  /** Whether the list has come; before that nothing is known. */
  loaded = false;

  constructor(live: Live) {
    super(live, { op: 'open', topic: 'jobs' });
  }

  get rows(): readonly Row[] {
    return this.#sorted;
  }

  /** Call `listener` once for each job that ends from now on. */
  onEnded(listener: (row: Row) => void): () => void {
    this.#ended.add(listener);
    return () => this.#ended.delete(listener);
  }

  protected take(message: Message): void {
    if (message.kind === 'error') {
      this.error = message;
      this.tell();
      return;
    }
    if (message.kind !== 'jobs') {
      return;
    }
    const before = this.#rows;
    const first = !this.loaded;
    this.#rows = message.all ? new Map<string, Row>() : new Map(before);
    for (const row of message.rows) {
      const old = before.get(row.key);
      this.#rows.set(row.key, old && same(old, row) ? old : row);
    }
    if (!message.all) {
      message.gone.forEach(key => this.#rows.delete(key));
    }
    this.#sorted = [...this.#rows.values()].sort(newestFirst);
    this.loaded = true;
    this.error = null;
    this.tell();
    if (!first) {
      this.#tellEnded(before, message.rows, message.all ? null : message.now);
    }
  }

  /** Tell what has ended; without a time the page may have missed more than a moment. */
  #tellEnded(before: Map<string, Row>, rows: Row[], now: number | null): void {
    const ended = rows.filter(row => !row.active);
    const others = ended.filter(row => before.get(row.key)?.uid !== row.uid);
    const known = others.length > 0 ? [...before.values()] : [];
    const newest = Math.max(0, ...known.map(({ created }) => created));
    for (const row of ended) {
      // What is new here may be old: somebody attaches to the job of another machine.
      const recent = now === null || (row.ended ?? 0) > now - RECENT;
      const whole = others.includes(row) && row.created > newest && recent;
      if (whole || (before.get(row.key)?.active && !others.includes(row))) {
        this.#ended.forEach(listener => listener(row));
      }
    }
  }
}

/** Give all jobs, once the list has come; null where it cannot be had. */
export async function loadedJobs(store: JobsStore): Promise<readonly Row[] | null> {
  await new Promise<void>(resolve => {
    const look = () => {
      if (store.loaded || store.problem || store.error) {
        stop();
        resolve();
      }
    };
    const stop = store.watch(look);
    look();
  });
  return store.loaded ? store.rows : null;
}

/** One job, with all that is known about it. */
export class JobStore extends LiveStore {
  readonly key: string;
  /** What the job has reported. */
  readonly metrics = new Metrics();
  detail: Detail | null = null;
  events: readonly JobEvent[] = [];
  /** The last lines of its log. */
  tail: readonly TailLine[] = [];

  constructor(live: Live, key: string) {
    super(live, { op: 'open', topic: 'job', key });
    this.key = key;
  }

  /** Open another job beside this one; who asks disposes of it. */
  beside(key: string): JobStore {
    return new JobStore(this.live, key);
  }

  /** Open the list of all jobs; who asks disposes of it. */
  list(): JobsStore {
    return new JobsStore(this.live);
  }

  protected take(message: Message): void {
    if (message.kind === 'error') {
      this.error = message;
    } else if (message.kind === 'job') {
      this.detail = message.detail;
      this.error = null;
    } else if (message.kind === 'events') {
      this.events = [...this.events.slice(0, message.from), ...message.events];
    } else if (message.kind === 'tail') {
      this.tail = message.lines;
    } else if (message.kind === 'metrics') {
      this.metrics.put(message.from, message.points);
      return; // plots watch the metrics; nothing else has changed
    } else {
      return;
    }
    this.tell();
  }
}

/** What a compact view shows of one job. */
export class GlanceStore extends LiveStore {
  glance: Glance | null = null;

  constructor(live: Live, key: string) {
    super(live, { op: 'open', topic: 'glance', key });
  }

  protected take(message: Message): void {
    if (message.kind === 'glance') {
      this.glance = message.glance;
      this.error = null;
    } else if (message.kind === 'error') {
      this.error = message;
    } else {
      return;
    }
    this.tell();
  }
}

function newestFirst(a: Row, b: Row): number {
  return b.created - a.created || (a.key < b.key ? -1 : 1);
}

/** Compare what is shown; the time that it took is not, since the page has a clock. */
function same(a: Row, b: Row): boolean {
  return JSON.stringify({ ...a, elapsed: null }) === JSON.stringify({ ...b, elapsed: null });
}
