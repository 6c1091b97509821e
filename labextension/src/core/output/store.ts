/** What the output of a cell shows of a job: live where a server knows it, else as it was saved. */

import type { Live } from '../base/live';
import type { Glance } from '../base/protocol';
import { GlanceStore } from '../job/stores';
import { Teller } from '../base/observable';

/** The type of our part of a cell's output. */
export const MIME = 'application/vnd.jaxtrain.job+json';

/** What that part holds. */
export interface Saved {
  /** Null as long as the job has not been submitted. */
  key: string | null;
  name: string;
  /** Tells it from other jobs of this name, before and after it; null where it is not known. */
  uid: string | null;
  /** Whether the lines of the job stand in the output already. */
  printed: boolean;
  /** What was last known when the notebook was saved. */
  last: Glance | null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/** Read what was written down of a job, by whomever; null where it is not that. */
export function readGlance(said: unknown): Glance | null {
  const row = isObject(said) ? said['row'] : null;
  const whole =
    isObject(said) &&
    isObject(row) &&
    typeof row['name'] === 'string' &&
    typeof row['state'] === 'string' &&
    Array.isArray(row['actions']) &&
    Array.isArray(said['tail']);
  return whole ? (said as unknown as Glance) : null;
}

/** Read what a notebook says; anybody may have written it. */
export function readSaved(data: unknown): Saved {
  const { key, name, uid, printed, last } = isObject(data) ? data : {};
  const glance = readGlance(last);
  return {
    key: typeof key === 'string' && key ? key : null,
    name: typeof name === 'string' ? name : '',
    uid: typeof uid === 'string' ? uid : null,
    printed: printed === true,
    last: glance && withoutActions(glance)
  };
}

/** Nothing can be done to what is only known from before, and nobody waits for it. */
function withoutActions(glance: Glance): Glance {
  return { ...glance, waited: false, note: null, row: { ...glance.row, actions: [] } };
}

/** The stores of the jobs that are looked at, each shared by all who look. */
export class Glances {
  #live: Live;
  #held = new Map<string, { store: GlanceStore; count: number }>();

  constructor(live: Live) {
    this.#live = live;
  }

  take(key: string): GlanceStore {
    const held = this.#held.get(key) ?? { store: new GlanceStore(this.#live, key), count: 0 };
    held.store.lookAgain();
    held.count++;
    this.#held.set(key, held);
    return held.store;
  }

  leave(key: string): void {
    const held = this.#held.get(key);
    if (held && --held.count === 0) {
      this.#held.delete(key);
      held.store.dispose();
    }
  }
}

/** Where what is shown comes from. */
export type From =
  | 'server'
  | 'before' // the server, but there is no connection now
  | 'first' // the notebook, until the server has answered
  | 'notebook' // since no server knows the job
  | 'gone'; // the server, which does not know it any more

/** Null where nothing is known (yet) but the static card. */
export type Shown = { glance: Glance; from: From } | null;

/** Stop the clock of a job of which nothing more will be heard. */
function frozen({ row, ...rest }: Glance): Glance {
  const time = row.progress?.time ?? null;
  const stopped = { ...row, active: false, ended: time, created: time === null ? 0 : row.created };
  return withoutActions({ ...rest, row: row.active ? stopped : row });
}

/** One output. It asks the server only while it is looked at. */
export class JobOutput extends Teller {
  #glances: Glances;
  #saved: Saved = readSaved(null);
  #looking = false;
  #store: GlanceStore | null = null;
  #taken: string | null = null;
  #unwatch = () => {};
  /** What the server said last; kept while nobody looks. */
  #known: Glance | null = null;

  constructor(glances: Glances) {
    super();
    this.#glances = glances;
  }

  get saved(): Saved {
    return this.#saved;
  }

  get shown(): Shown {
    const { key, last } = this.#saved;
    const store = this.#store;
    const glance = this.#known;
    if (glance) {
      return store?.error || this.#isTaken
        ? { glance: frozen(glance), from: 'gone' }
        : { glance, from: store && !store.current ? 'before' : 'server' };
    }
    if (!last) {
      return null;
    }
    const failed = key === null || this.#isTaken || Boolean(store?.error ?? store?.problem);
    return failed ? { glance: frozen(last), from: 'notebook' } : { glance: last, from: 'first' };
  }

  /** Take what the notebook says now. */
  set(saved: Saved): void {
    if (saved.key !== this.#saved.key || saved.uid !== this.#saved.uid) {
      this.#known = null;
      this.#store?.lookAgain();
    }
    this.#saved = saved;
    this.#follow();
    this.tell();
  }

  /** Say whether somebody looks. */
  look(looking: boolean): void {
    if (looking !== this.#looking) {
      this.#looking = looking;
      this.#follow();
      this.tell();
    }
  }

  retry(): void {
    this.#store?.retry();
  }

  #follow(): void {
    const wanted = this.#looking ? this.#saved.key : null;
    if (wanted === this.#taken) {
      return;
    }
    this.#unwatch();
    this.#unwatch = () => {};
    if (this.#taken !== null) {
      this.#glances.leave(this.#taken);
    }
    this.#taken = wanted;
    this.#store = wanted === null ? null : this.#glances.take(wanted);
    if (this.#store) {
      this.#unwatch = this.#store.watch(() => this.#onChange());
    }
    this.#learn();
  }

  #onChange(): void {
    this.#learn();
    this.tell();
  }

  #learn(): void {
    if (this.#store?.glance && !this.#isTaken) {
      this.#known = this.#store.glance;
    }
  }

  /** Whether the name of the job has become that of another one. */
  get #isTaken(): boolean {
    const there = this.#store?.glance?.row.uid ?? null;
    return there !== null && this.#saved.uid !== null && there !== this.#saved.uid;
  }
}
