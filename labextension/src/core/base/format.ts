/** Text for people: spans of time, parts of a whole, and words made harmless. */

import type { Progress, Row } from './protocol';
import type { Words } from './translator';

// Control characters, and those that reverse what follows them.
// eslint-disable-next-line no-control-regex
const HARMFUL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Take out of a text what would change how the text around it is read. */
export function plain(text: string): string {
  return text.replace(HARMFUL, '');
}

/** Give the word of a name that comes from a job; a name that is not known stays as it is. */
export function wordOf(name: string, known: Partial<Record<string, string>>): string {
  return (Object.hasOwn(known, name) ? known[name] : undefined) ?? plain(name);
}

/** Give a span of time with its largest unit: `12 s`, `2 m`, `1 h`, `3 d`. */
export function span(seconds: number, words: Words): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) {
    return words.__('%1 s', whole);
  }
  if (whole < 3600) {
    return words.__('%1 m', Math.floor(whole / 60));
  }
  if (whole < 86_400) {
    return words.__('%1 h', Math.floor(whole / 3600));
  }
  return words.__('%1 d', Math.floor(whole / 86_400));
}

const UNITS = [86_400, 3600, 60];

/** Give a span of time with its two largest units: `2 m 14 s`. */
export function duration(seconds: number, words: Words): string {
  const whole = Math.max(0, Math.floor(seconds));
  const at = UNITS.findIndex(unit => whole >= unit);
  const rest = whole % (UNITS[at] ?? 1);
  const two = rest >= (UNITS[at + 1] ?? 1);
  return two ? `${span(whole, words)} ${span(rest, words)}` : span(whole, words);
}

// Made once: to make one takes longer than all else of a row of the list. 24 hours, as in the log.
const CLOCK = {
  hour: 'numeric',
  minute: 'numeric',
  second: 'numeric',
  hourCycle: 'h23'
} as const;
const TODAY = new Intl.DateTimeFormat([], CLOCK);
const WHOLE = new Intl.DateTimeFormat([], {
  year: 'numeric',
  month: 'numeric',
  day: 'numeric',
  ...CLOCK
});

/** Give a time of today as a clock shows it, and another with its day. */
export function clock(seconds: number): string {
  const time = new Date(seconds * 1000);
  if (Number.isNaN(time.getTime())) {
    return ''; // of a damaged file; a format would throw
  }
  const today = time.toDateString() === new Date().toDateString();
  return (today ? TODAY : WHOLE).format(time);
}

/** Give how much is done, from 0 to 1, or null where that is not known. */
export function fraction(progress: Progress | null): number | null {
  const done = progress?.fraction;
  return typeof done === 'number' && Number.isFinite(done) ? Math.min(1, Math.max(0, done)) : null;
}

/** Say how far a job is: `62 %`, or `step 1240`; empty where nothing is known. */
export function progress(row: Row, words: Words): string {
  const done = fraction(row.progress);
  if (done !== null) {
    return words.__('%1 %', Math.floor(done * 100));
  }
  return row.progress ? words.__('step %1', row.progress.step) : '';
}
