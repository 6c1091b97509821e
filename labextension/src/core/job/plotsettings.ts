/** How somebody looks at the metrics of a job. */

import type { Host } from '../base/host';
import { keep, keepFor, kept, keptFor } from '../base/storage';
import type { Range } from '../plots/lines';

const TASTE = 'plots';
const CHOICE = 'plots-of';

/** The same for all jobs. */
interface Taste {
  axis: 'step' | 'time';
  log: boolean;
}

/** What of one job is drawn. */
interface Choice {
  /** None: the first rank that has reported a metric. */
  ranks: readonly number[];
  /** Metrics that are left out, by their names. */
  hidden: readonly string[];
  /** The keys of jobs that are drawn over it. */
  others: readonly string[];
}

/** How many others these can be. */
export const MOST_COMPARED = 7;

export interface Look extends Taste, Choice {
  range: Range | null;
}

/** Give how the metrics of a job were looked at last. */
export function readLook(host: Host, key: string): Look {
  const { axis, log } = kept<Taste>(host, TASTE);
  const { ranks, hidden, others } = keptFor<Choice>(host, CHOICE, key);
  return {
    axis: axis === 'time' ? 'time' : 'step',
    log: log === true,
    ranks: Array.isArray(ranks) ? ranks.filter(rank => typeof rank === 'number') : [],
    hidden: strings(hidden),
    others: strings(others).slice(0, MOST_COMPARED),
    range: null
  };
}

function strings(kept: unknown): string[] {
  return Array.isArray(kept) ? kept.filter(each => typeof each === 'string') : [];
}

/** Keep what of a change is worth keeping. */
export function keepLook(host: Host, key: string, look: Look, change: Partial<Look>): void {
  const { axis, log, ranks, hidden, others } = look;
  if ('axis' in change || 'log' in change) {
    keep(host, TASTE, { axis, log });
  }
  if ('ranks' in change || 'hidden' in change || 'others' in change) {
    keepFor(host, CHOICE, key, { ranks, hidden, others });
  }
}
