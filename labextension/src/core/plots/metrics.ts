/** What a job has reported, by metric and rank: columns that plots draw from. */

import { Observable } from '../base/observable';
import type { Point } from '../base/protocol';

/** The reports of one metric by one rank, in their order. A value that is no number is NaN. */
export interface Column {
  readonly steps: number[];
  readonly times: number[];
  readonly values: number[];
}

export class Metrics extends Observable {
  #columns = new Map<string, Map<number, Column>>();
  #first: Point | null = null;
  #count = 0;

  /** Grows with each change. */
  version = 0;

  /** The names of the metrics, in the order in which they came. */
  get names(): string[] {
    return [...this.#columns.keys()];
  }

  /** When the first report came, in seconds since the epoch. */
  get began(): number | null {
    return this.#first?.time ?? null;
  }

  /** Return the ranks that have reported something. */
  ranks(): number[] {
    const found = new Set<number>();
    for (const columns of this.#columns.values()) {
      for (const rank of columns.keys()) {
        found.add(rank);
      }
    }
    return [...found].sort((a, b) => a - b);
  }

  /** Return a rank's reports of a metric; by default those of the lowest rank that has any. */
  column(name: string, rank: number | null = null): Column | null {
    const columns = this.#columns.get(name);
    if (!columns || columns.size === 0) {
      return null;
    }
    return columns.get(rank ?? Math.min(...columns.keys())) ?? null;
  }

  /**
   * Add reports, numbered from `from`; known ones are skipped. If they start at 0 and the first
   * differs or is missing, they belong to another job, and the old ones are dropped.
   */
  put(from: number, points: readonly Point[]): void {
    const [first] = points;
    if (from === 0 && this.#first && !(first && same(first, this.#first))) {
      this.#forget();
    }
    for (const point of points.slice(Math.max(0, this.#count - from))) {
      this.#first ??= point;
      this.#add(point);
    }
    this.#count = Math.max(this.#count, from + points.length);
    this.version++;
    this.notify();
  }

  #forget(): void {
    this.#columns.clear();
    this.#first = null;
    this.#count = 0;
  }

  #add({ time, rank, step, values }: Point): void {
    for (const [name, value] of Object.entries<unknown>(values)) {
      let columns = this.#columns.get(name);
      if (!columns) {
        this.#columns.set(name, (columns = new Map<number, Column>()));
      }
      let column = columns.get(rank);
      if (!column) {
        columns.set(rank, (column = { steps: [], times: [], values: [] }));
      }
      column.steps.push(step);
      column.times.push(time);
      // NaN and infinities arrive as strings.
      column.values.push(typeof value === 'number' && Number.isFinite(value) ? value : NaN);
    }
  }
}

function same(a: Point, b: Point): boolean {
  return a.time === b.time && a.rank === b.rank && a.step === b.step;
}
