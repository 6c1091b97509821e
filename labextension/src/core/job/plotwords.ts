/** What a plot shows, in words. */

import { plain } from '../base/format';
import { factsOf, valueAt, type Line } from '../plots/lines';
import { number } from '../base/number';
import type { Words } from '../base/translator';

/** Give the values at a place, as words. */
export function valuesAt(
  labels: readonly string[],
  lines: readonly Line[],
  at: number,
  xText: (x: number) => string
): string {
  const values = labels.map((label, index) => {
    const value = valueAt(lines[index] ?? { xs: [], ys: [] }, at);
    return `${plain(label)} ${value === null ? '–' : number(value)}`;
  });
  return `${xText(at)}: ${values.join(', ')}`;
}

/** Give what a plot shows for those who cannot see it. */
export function inWords(
  label: string,
  line: Line | undefined,
  xText: (x: number) => string,
  words: Words
): string {
  const facts = line ? factsOf(line) : null;
  if (!facts) {
    return words.__('%1: nothing reported.', plain(label));
  }
  const { count, last, at, least, most } = facts;
  const value = Number.isNaN(last) ? words.__('not a number') : number(last);
  const head = words.__('%1: last %2 at %3', plain(label), value, xText(at));
  const span =
    least === null || most === null
      ? ''
      : words.__(', least %1, most %2', number(least), number(most));
  return `${head}${span}, ${words._n('%1 report.', '%1 reports.', count)}`;
}
