/** The settings of a job's plots. */

import type { Host } from '../base/host';
import { loadItem, loadItemFor, saveItem, saveItemFor } from '../base/storage';
import type { Range } from '../plots/lines';

const SHARED = 'plots';
const PER_JOB = 'plots-of';

/** The same for all jobs. */
interface SharedSettings {
  axis: 'step' | 'time';
  log: boolean;
}

/** What of one job is drawn. */
interface Choice {
  /** Empty: the lowest rank that has reported the metric. */
  ranks: readonly number[];
  /** Metrics that are left out, by their names. */
  hidden: readonly string[];
  /** The keys of jobs that are drawn over it. */
  others: readonly string[];
}

/** How many others these can be. */
export const MOST_COMPARED = 7;

export interface PlotSettings extends SharedSettings, Choice {
  range: Range | null;
}

/** Return the stored settings of a job's plots. */
export function loadPlotSettings(host: Host, key: string): PlotSettings {
  const { axis, log } = loadItem<SharedSettings>(host, SHARED);
  const { ranks, hidden, others } = loadItemFor<Choice>(host, PER_JOB, key);
  return {
    axis: axis === 'time' ? 'time' : 'step',
    log: log === true,
    ranks: Array.isArray(ranks) ? ranks.filter(rank => typeof rank === 'number') : [],
    hidden: strings(hidden),
    others: strings(others).slice(0, MOST_COMPARED),
    range: null
  };
}

function strings(loadItem: unknown): string[] {
  return Array.isArray(loadItem) ? loadItem.filter(each => typeof each === 'string') : [];
}

/** Store a change of the settings, but no zoom. */
export function keepLook(
  host: Host,
  key: string,
  settings: PlotSettings,
  change: Partial<PlotSettings>
): void {
  const { axis, log, ranks, hidden, others } = settings;
  if ('axis' in change || 'log' in change) {
    saveItem(host, SHARED, { axis, log });
  }
  if ('ranks' in change || 'hidden' in change || 'others' in change) {
    saveItemFor(host, PER_JOB, key, { ranks, hidden, others });
  }
}
