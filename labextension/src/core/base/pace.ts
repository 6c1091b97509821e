/** How fast a job goes, by what a page has seen of it. */

import { fraction } from './format';
import type { Row } from './protocol';

const LEAST = 10; // seconds; over a shorter time chance counts for too much

interface Seen {
  uid: string | null;
  fraction: number;
  time: number;
}

export class Pace {
  #first: Seen | null = null;
  #last: Seen | null = null;

  /** Take what is known now. A job that goes on from an earlier step is measured anew. */
  see(row: Row): void {
    const done = fraction(row.progress);
    if (done === null || !row.progress || row.state !== 'Running') {
      this.#first = this.#last = null;
      return;
    }
    const seen = { uid: row.uid, fraction: done, time: row.progress.time };
    const last = this.#last;
    if (!this.#first || last?.uid !== seen.uid || seen.fraction < last.fraction) {
      this.#first = seen;
    }
    this.#last = seen;
  }

  /** Estimate the seconds from `now` to the end; null as long as that would be a guess. */
  left(now: number): number | null {
    const first = this.#first;
    const last = this.#last;
    if (!first || !last || last.time - first.time < LEAST || last.fraction <= first.fraction) {
      return null;
    }
    const each = (last.time - first.time) / (last.fraction - first.fraction);
    return Math.max(0, each * (1 - last.fraction) - (now - last.time));
  }
}
