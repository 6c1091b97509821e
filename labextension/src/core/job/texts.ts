import { duration } from '../base/format';
import type { JobState, Row } from '../base/protocol';
import type { Words } from '../base/translator';

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];

/** Give a number of bytes in decimal units: `188 MB`. */
export function bytes(count: number): string {
  let value = Math.max(0, count);
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  const text = unit > 0 && value < 9.95 ? value.toFixed(1).replace('.0', '') : value.toFixed(0);
  return `${text} ${UNITS[unit]}`;
}

/** Give ranks in words: `rank 3`, `ranks 0–2 and 5`. */
export function ranksText(ranks: readonly number[], words: Words): string {
  const sorted = [...new Set(ranks)].sort((a, b) => a - b);
  const runs: [number, number][] = [];
  for (const rank of sorted) {
    const last = runs.at(-1);
    if (last && rank === last[1] + 1) {
      last[1] = rank;
    } else {
      runs.push([rank, rank]);
    }
  }
  const parts = runs.flatMap(([from, to]) =>
    to > from + 1 ? [`${from}–${to}`] : to > from ? [String(from), String(to)] : [String(from)]
  );
  const end = parts.length > 1 ? parts.pop() : undefined;
  const list = parts.join(', ');
  const text = end === undefined ? list : words.__('%1 and %2', list, end);
  return sorted.length === 1 ? words.__('rank %1', text) : words.__('ranks %1', text);
}

const LEAST_FRACTION = 0.02;

/** Estimate the seconds to the end; null where that is not known. */
export function timeLeft(state: JobState, now: number): number | null {
  const done = state.progress?.fraction;
  const began = state.history.find(entry => entry.state === 'Running')?.time;
  if (state.state !== 'Running' || began === undefined) {
    return null;
  }
  if (typeof done !== 'number' || !(done >= LEAST_FRACTION) || done > 1) {
    return null;
  }
  return ((now - began) * (1 - done)) / done;
}

/** Say how long a job has taken, and how long it may still take. */
export function timesText(row: Row, state: JobState | null, now: number, words: Words): string {
  const left = state && row.active ? timeLeft(state, now) : null;
  const took = duration((row.active ? now : (row.ended ?? row.created)) - row.created, words);
  return left === null ? took : `${took} · ${words.__('about %1 left', duration(left, words))}`;
}

const SIGNALS: Partial<Record<number, string>> = {
  2: 'SIGINT',
  4: 'SIGILL',
  6: 'SIGABRT',
  7: 'SIGBUS',
  8: 'SIGFPE',
  9: 'SIGKILL',
  11: 'SIGSEGV',
  15: 'SIGTERM'
};

/** Give how a process ended: `0`, `1`, `SIGKILL`. */
export function exitText(exit: number | null, words: Words): string {
  if (exit === null) {
    return '';
  }
  return exit < 0 ? (SIGNALS[-exit] ?? words.__('signal %1', -exit)) : String(exit);
}

/** Give words for an error of a request. */
export function troubleText(error: unknown): string {
  if (error instanceof Error) {
    const { hint } = error as { hint?: unknown };
    return typeof hint === 'string' && hint ? `${error.message} ${hint}` : error.message;
  }
  return String(error);
}
