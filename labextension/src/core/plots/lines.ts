/** Turn columns into lines to draw: sorted, clipped to the visible range, and downsampled. */

import type { Column } from './metrics';

/** A line as numbers, sorted by x. A gap is NaN. */
export interface Line {
  xs: readonly number[];
  ys: readonly number[];
}

export type Range = readonly [from: number, to: number];

/** What uPlot takes: all x, then the values of each line; undefined where a line has no such x. */
export type Table = [number[], ...(number | null | undefined)[][]];

const EMPTY: Line = { xs: [], ys: [] };

/** Return a column as a line over steps, or over the seconds since `began`. */
export function lineOf(column: Column | null, began: number | null): Line {
  if (!column) {
    return EMPTY;
  }
  const { steps, times, values } = column;
  const xs = began === null ? steps : times.map(time => time - began);
  return sorted(xs) ? { xs, ys: values } : sort(xs, values);
}

function sorted(xs: readonly number[]): boolean {
  for (let i = 1; i < xs.length; i++) {
    if (!((xs[i] ?? 0) > (xs[i - 1] ?? 0))) {
      return false;
    }
  }
  return true;
}

/** Sort by x. The last of several values at one x counts: a resumed job repeats steps. */
function sort(xs: readonly number[], values: readonly number[]): Line {
  const order = xs.map((_, index) => index).filter(index => Number.isFinite(xs[index]));
  order.sort((a, b) => (xs[a] ?? 0) - (xs[b] ?? 0) || a - b);
  const line = { xs: [] as number[], ys: [] as number[] };
  order.forEach((index, position) => {
    const next = order[position + 1];
    if (next === undefined || xs[next] !== xs[index]) {
      line.xs.push(xs[index] ?? NaN);
      line.ys.push(values[index] ?? NaN);
    }
  });
  return line;
}

/** Return the first index whose x is not below `x`. */
export function indexOf(xs: readonly number[], x: number): number {
  let low = 0;
  let high = xs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((xs[middle] ?? 0) < x) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/** Return the range of all lines; one that is a single point gets some room. */
export function extent(lines: readonly Line[]): Range | null {
  const ends = lines.flatMap(({ xs }) => [xs[0], xs.at(-1)]).filter(x => x !== undefined);
  if (ends.length === 0) {
    return null;
  }
  const from = Math.min(...ends);
  const to = Math.max(...ends);
  return from < to ? [from, to] : [from - 0.5, to + 0.5];
}

/** Clip a line to a range, and downsample it to the min and max in each of `width` pixels. */
export function thin(line: Line, [from, to]: Range, width: number): Line {
  const { xs, ys } = line;
  // One point more at each side: the line goes on to the edges.
  const start = Math.max(0, indexOf(xs, from) - 1);
  const end = Math.min(xs.length, indexOf(xs, to) + 2);
  if (end - start <= 2 * width) {
    return { xs: xs.slice(start, end), ys: ys.slice(start, end) };
  }
  const thinned = { xs: [] as number[], ys: [] as number[] };
  const add = (index: number) => {
    thinned.xs.push(xs[index] ?? NaN);
    thinned.ys.push(ys[index] ?? NaN);
  };
  const pixel = (index: number) => Math.floor((((xs[index] ?? 0) - from) / (to - from)) * width);
  for (let i = start; i < end;) {
    const here = pixel(i);
    let least = -1;
    let most = -1;
    const first = i;
    for (; i < end && pixel(i) === here; i++) {
      const y = ys[i] ?? NaN;
      if (!Number.isNaN(y)) {
        least = least < 0 || y < (ys[least] ?? 0) ? i : least;
        most = most < 0 || y > (ys[most] ?? 0) ? i : most;
      }
    }
    if (least < 0) {
      add(first); // nothing but gaps
    } else {
      add(Math.min(least, most));
      if (least !== most) {
        add(Math.max(least, most));
      }
    }
  }
  return thinned;
}

/** Join lines on a common x. On a log scale, values that are not positive become gaps. */
export function join(lines: readonly Line[], log: boolean): Table {
  const xs = [...new Set(lines.flatMap(line => line.xs))].sort((a, b) => a - b);
  const places = new Map(xs.map((x, index) => [x, index]));
  const table: Table = [xs];
  for (const line of lines) {
    const column = new Array<number | null | undefined>(xs.length).fill(undefined);
    line.xs.forEach((x, index) => {
      const y = line.ys[index] ?? NaN;
      column[places.get(x) ?? 0] = Number.isNaN(y) || (log && y <= 0) ? null : y;
    });
    table.push(column);
  }
  return table;
}

/** Return the value of a line nearest to `x`; null if the line is empty. */
export function valueAt({ xs, ys }: Line, x: number): number | null {
  const after = indexOf(xs, x);
  const before = after - 1;
  const closer =
    before >= 0 && (after >= xs.length || x - (xs[before] ?? 0) < (xs[after] ?? 0) - x);
  return ys[closer ? before : after] ?? null;
}

export interface Facts {
  count: number;
  /** The last report; NaN where it was no number. */
  last: number;
  at: number;
  least: number | null;
  most: number | null;
}

/** Return what can be said of a line in words; null where there is no line. */
export function factsOf({ xs, ys }: Line): Facts | null {
  const at = xs.at(-1);
  if (at === undefined) {
    return null;
  }
  const facts: Facts = { count: xs.length, last: ys.at(-1) ?? NaN, at, least: null, most: null };
  for (const y of ys) {
    if (!Number.isNaN(y)) {
      facts.least = facts.least === null || y < facts.least ? y : facts.least;
      facts.most = facts.most === null || y > facts.most ? y : facts.most;
    }
  }
  return facts;
}
