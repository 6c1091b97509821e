import type { Live } from '../base/live';
import { LiveStore } from '../base/livestore';
import type { Message, Row } from '../base/protocol';

/** A job new to the list counts as just ended for this many seconds after its end. */
const RECENT = 60;

/** All jobs, newest first. An unchanged row stays the same object. */
export class JobsStore extends LiveStore {
  #rows = new Map<string, Row>();
  #sorted: readonly Row[] = [];
  #ended = new Set<(row: Row) => void>();

  /** Whether the list has arrived. */
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
      this.notify();
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
    this.notify();
    if (!first) {
      this.#reportEnded(before, message.rows, message.all ? null : message.now);
    }
  }

  /** Report what has ended; without `now` this is a whole list, after an interruption of any length. */
  #reportEnded(before: Map<string, Row>, rows: Row[], now: number | null): void {
    const ended = rows.filter(row => !row.active);
    const others = ended.filter(row => before.get(row.key)?.uid !== row.uid);
    const known = others.length > 0 ? [...before.values()] : [];
    const newest = Math.max(0, ...known.map(({ created }) => created));
    for (const row of ended) {
      // A job that is new here may be old: one can attach to a job of another machine.
      const recent = now === null || (row.ended ?? 0) > now - RECENT;
      const whole = others.includes(row) && row.created > newest && recent;
      if (whole || (before.get(row.key)?.active && !others.includes(row))) {
        this.#ended.forEach(listener => listener(row));
      }
    }
  }
}

/** Return all jobs once the list has arrived; null if it is not available. */
export async function loadedJobs(store: JobsStore): Promise<readonly Row[] | null> {
  await new Promise<void>(resolve => {
    const settings = () => {
      if (store.loaded || store.problem || store.error) {
        stop();
        resolve();
      }
    };
    const stop = store.subscribe(settings);
    settings();
  });
  return store.loaded ? store.rows : null;
}

function newestFirst(a: Row, b: Row): number {
  return b.created - a.created || (a.key < b.key ? -1 : 1);
}

/** Compare all but `elapsed`, which the page counts itself. */
function same(a: Row, b: Row): boolean {
  return JSON.stringify({ ...a, elapsed: null }) === JSON.stringify({ ...b, elapsed: null });
}
