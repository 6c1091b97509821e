/** How long a job may still take. All views of a page show the same estimate. */

import { fraction } from './format';
import type { JobState, Row } from './protocol';

const MIN_SECONDS = 10; // of observation: a shorter one says too little
const MIN_FRACTION = 0.02; // of the job, for an estimate by the time since it started
const MOST_JOBS = 100; // that are remembered

interface Sample {
  fraction: number;
  time: number;
}

/** Estimates the end of one job by its progress as this page has seen it. */
export class Eta {
  #first: Sample | null = null;
  #last: Sample | null = null;
  #started: number | null = null;

  /** Take the latest progress. A job that resumes from an earlier step is measured anew. */
  observe(row: Row, state: JobState | null = null): void {
    const done = fraction(row.progress);
    if (row.state !== 'Running') {
      this.#started = null;
    } else if (state) {
      this.#started = state.history.find(entry => entry.state === 'Running')?.time ?? null;
    }
    if (done === null || !row.progress || row.state !== 'Running') {
      this.#first = this.#last = null;
      return;
    }
    const sample = { fraction: done, time: row.progress.time };
    if (this.#last && sample.time < this.#last.time) {
      return; // another view is ahead
    }
    if (!this.#first || (this.#last && sample.fraction < this.#last.fraction)) {
      this.#first = sample;
    }
    this.#last = sample;
  }

  /**
   * Return the seconds from `now` to the end; null while that would be a guess.
   *
   * The observed rate counts. Until there is one, use the average since the start, if a view knows
   * the start.
   */
  secondsLeft(now: number): number | null {
    const [first, last] = [this.#first, this.#last];
    if (!first || !last) {
      return null;
    }
    if (last.time - first.time >= MIN_SECONDS && last.fraction > first.fraction) {
      const rate = (last.fraction - first.fraction) / (last.time - first.time);
      return Math.max(0, (1 - last.fraction) / rate - (now - last.time));
    }
    if (this.#started === null || last.fraction < MIN_FRACTION) {
      return null;
    }
    return ((now - this.#started) * (1 - last.fraction)) / last.fraction;
  }
}

const estimates = new Map<string, Eta>();

/** Return the estimate of a job, shared by all of its views. */
export function etaOf({ key, uid }: Row): Eta {
  const id = uid ?? key;
  const eta = estimates.get(id) ?? new Eta();
  estimates.delete(id); // to the end: the oldest is forgotten first
  estimates.set(id, eta);
  for (const oldest of estimates.keys()) {
    if (estimates.size <= MOST_JOBS) {
      break;
    }
    estimates.delete(oldest);
  }
  return eta;
}
