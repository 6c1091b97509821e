/** A job in the output of a cell: live where a server knows it, else as the notebook saved it. */

import type { Live } from '../base/live';
import { LiveStore } from '../base/livestore';
import { Observable } from '../base/observable';
import type { JobSummary, Message, Row } from '../base/protocol';

/** The MIME type of a job in a cell's output. */
export const MIME = 'application/vnd.jaxtrain.job+json';

/** The data of that type. */
export interface Saved {
  /** Null as long as the job has not been submitted. */
  key: string | null;
  name: string;
  /** Distinguishes it from other jobs of this name; null if unknown. */
  uid: string | null;
  /** Whether the cell prints the lines of rank 0 below; a page loaded since then has none. */
  printing: boolean;
  /** Whether the output already has the lines of rank 0. */
  printed: boolean;
  /** The last summary before the notebook was saved. */
  last: JobSummary | null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/** Check a summary from an untrusted source; null if it is none. */
export function readSummary(data: unknown): JobSummary | null {
  const row = isObject(data) ? data['row'] : null;
  const whole =
    isObject(data) &&
    isObject(row) &&
    typeof row['name'] === 'string' &&
    typeof row['state'] === 'string' &&
    Array.isArray(row['actions']) &&
    Array.isArray(data['tail']);
  return whole ? (data as unknown as JobSummary) : null;
}

/** Read the data in a notebook; anybody may have written it. */
export function readSaved(data: unknown): Saved {
  const { key, name, uid, printing, printed, last } = isObject(data) ? data : {};
  const summary = readSummary(last);
  return {
    key: typeof key === 'string' && key ? key : null,
    name: typeof name === 'string' ? name : '',
    uid: typeof uid === 'string' ? uid : null,
    printing: printing === true,
    printed: printed === true,
    last: summary && withoutActions(summary)
  };
}

/** Remove what only holds for a live job: actions, and the waiting cell. */
function withoutActions(summary: JobSummary): JobSummary {
  return {
    ...summary,
    awaited: false,
    note: null,
    idle_ends: null,
    row: { ...summary.row, actions: [] }
  };
}

/** The summary of one job. */
export class SummaryStore extends LiveStore {
  summary: JobSummary | null = null;

  constructor(live: Live, key: string) {
    super(live, { op: 'open', topic: 'summary', key });
  }

  protected take(message: Message): void {
    if (message.kind === 'summary') {
      this.summary = message.summary;
      this.error = null;
    } else if (message.kind === 'error') {
      this.error = message;
    } else {
      return;
    }
    this.notify();
  }
}

/** The summary stores of the visible jobs, each shared by all outputs of its job. */
export class SummaryStores {
  #live: Live;
  #stores = new Map<string, { store: SummaryStore; users: number }>();

  constructor(live: Live) {
    this.#live = live;
  }

  acquire(key: string): SummaryStore {
    const entry = this.#stores.get(key) ?? { store: new SummaryStore(this.#live, key), users: 0 };
    entry.store.refresh();
    entry.users++;
    this.#stores.set(key, entry);
    return entry.store;
  }

  release(key: string): void {
    const entry = this.#stores.get(key);
    if (entry && --entry.users === 0) {
      this.#stores.delete(key);
      entry.store.dispose();
    }
  }
}

/** Where a summary comes from. */
export type Origin =
  | 'server'
  | 'disconnected' // the server, before the connection was lost
  | 'loading' // the notebook, until the server has answered
  | 'notebook' // because no server knows the job
  | 'deleted'; // the server, which does not know the job any more

/** Null as long as only the static card is known. */
export type Shown = { summary: JobSummary; origin: Origin } | null;

/** Stop the clock of a job of which nothing more will be heard. */
function frozen({ row, ...rest }: JobSummary): JobSummary {
  const time = row.progress?.time ?? null;
  const stopped = { ...row, active: false, ended: time, created: time === null ? 0 : row.created };
  return withoutActions({ ...rest, row: row.active ? stopped : row });
}

/** One output. It subscribes to its job while it is visible. */
export class JobOutput extends Observable {
  #summaries: SummaryStores;
  #saved: Saved = readSaved(null);
  #visible = false;
  #store: SummaryStore | null = null;
  #key: string | null = null; // of the job whose store is in use
  #unsubscribe = () => {};
  /** The last summary of the server; kept while the output is not visible. */
  #known: JobSummary | null = null;
  #awaited = false; // whether a cell awaited the job when it was last active
  #wasActive = false; // as far as the server has said
  #isSet = false;
  #isChanged = false;

  constructor(summaries: SummaryStores) {
    super();
    this.#summaries = summaries;
  }

  get saved(): Saved {
    return this.#saved;
  }

  /** Whether the lines of rank 0 are in the output below; a kernel may be gone. */
  get printed(): boolean {
    const prints = this.#saved.printing && this.#isChanged && (this.#awaited || !this.#wasActive);
    return this.#saved.printed || prints;
  }

  get shown(): Shown {
    const { key, last } = this.#saved;
    const store = this.#store;
    const summary = this.#known;
    if (summary) {
      return store?.error || this.#isReplaced
        ? { summary: frozen(summary), origin: 'deleted' }
        : { summary, origin: store && !store.current ? 'disconnected' : 'server' };
    }
    if (!last) {
      return null;
    }
    const failed = key === null || this.#isReplaced || Boolean(store?.error ?? store?.problem);
    return failed
      ? { summary: frozen(last), origin: 'notebook' }
      : { summary: last, origin: 'loading' };
  }

  /** Return whether this is the output of a cell that waits for a job, or did until it ended. */
  isWaitingFor({ key, uid }: Row): boolean {
    return this.#awaited && this.#saved.key === key && (this.#known?.row.uid ?? uid) === uid;
  }

  /** Show other data of the notebook. */
  set(saved: Saved): void {
    if (saved.key !== this.#saved.key || saved.uid !== this.#saved.uid) {
      this.#known = null;
      this.#awaited = this.#wasActive = false;
      this.#store?.refresh();
    }
    // A running cell changes its data; that of a saved one comes at once.
    this.#isChanged ||= this.#isSet;
    this.#isSet = true;
    this.#saved = saved;
    this.#follow();
    this.notify();
  }

  /** Set whether the output can be seen, or is about to come into view. */
  setVisible(visible: boolean): void {
    if (visible !== this.#visible) {
      this.#visible = visible;
      this.#follow();
      this.notify();
    }
  }

  retry(): void {
    this.#store?.retry();
  }

  #follow(): void {
    const key = this.#visible ? this.#saved.key : null;
    if (key === this.#key) {
      return;
    }
    this.#unsubscribe();
    this.#unsubscribe = () => {};
    if (this.#key !== null) {
      this.#summaries.release(this.#key);
    }
    this.#key = key;
    this.#store = key === null ? null : this.#summaries.acquire(key);
    if (this.#store) {
      this.#unsubscribe = this.#store.subscribe(() => this.#onChange());
    }
    this.#update();
  }

  #onChange(): void {
    this.#update();
    this.notify();
  }

  #update(): void {
    if (this.#store?.summary && !this.#isReplaced) {
      this.#known = this.#store.summary;
      const { row, awaited } = this.#known;
      this.#awaited = row.active ? awaited : this.#awaited;
      this.#wasActive ||= row.active;
    }
  }

  /** Whether another job has the name by now. */
  get #isReplaced(): boolean {
    const uid = this.#store?.summary?.row.uid ?? null;
    return uid !== null && this.#saved.uid !== null && uid !== this.#saved.uid;
  }
}
