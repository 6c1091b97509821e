/** Sets of ranks as text: for sentences, and as one types them. */

import type { Source } from './protocol';
import type { Translator } from './translator';

/** Return runs of consecutive ranks, each with its first and last one. */
function runsOf(ranks: readonly number[]): [number, number][] {
  const runs: [number, number][] = [];
  for (const rank of [...new Set(ranks)].sort((a, b) => a - b)) {
    const last = runs.at(-1);
    if (last && rank === last[1] + 1) {
      last[1] = rank;
    } else {
      runs.push([rank, rank]);
    }
  }
  return runs;
}

/** Return runs as text; two ranks are not worth a dash. */
function partsOf(ranks: readonly number[], dash: string): string[] {
  return runsOf(ranks).flatMap(([from, to]) =>
    to > from + 1 ? [`${from}${dash}${to}`] : to > from ? [String(from), String(to)] : String(from)
  );
}

/** Return ranks for a sentence: `rank 3`, `ranks 0–2 and 5`. */
export function ranksText(ranks: readonly number[], trans: Translator): string {
  const parts = partsOf(ranks, '–');
  const end = parts.length > 1 ? parts.pop() : undefined;
  const list = parts.join(', ');
  const text = end === undefined ? list : trans.__('%1 and %2', list, end);
  return new Set(ranks).size === 1 ? trans.__('rank %1', text) : trans.__('ranks %1', text);
}

/** Return ranks as one types them: `0-3, 7`. */
export function formatRanks(ranks: readonly number[]): string {
  return partsOf(ranks, '-').join(', ');
}

/** Parse `0-3, 7`, and return those ranks that exist; null if the text is something else. */
export function parseRanks(text: string, sources: readonly Source[]): number[] | null {
  const known = sources.filter(source => typeof source === 'number');
  const wanted = new Set<number>();
  for (const part of text.split(/[\s,]+/).filter(Boolean)) {
    const found = /^(\d+)(?:-(\d+))?$/.exec(part);
    if (!found) {
      return null;
    }
    const [low, high] = [Number(found[1]), Number(found[2] ?? found[1])];
    known.filter(rank => rank >= low && rank <= high).forEach(rank => wanted.add(rank));
  }
  return wanted.size > 0 ? [...wanted].sort((a, b) => a - b) : null;
}
