import type { Source } from '../base/logprotocol';

/** Order logs: ranks first, by their numbers, then containers by their names. */
export function byRank(a: Source, b: Source): number {
  if (typeof a === 'number' && typeof b === 'number') {
    return a - b;
  }
  return typeof a === typeof b ? (String(a) < String(b) ? -1 : 1) : typeof a === 'number' ? -1 : 1;
}
