/** Values as text, and text made safe to show. */

import type { Progress, Row } from './protocol';
import type { Translator } from './translator';

// Control characters, and those that reverse what follows them.
// eslint-disable-next-line no-control-regex
const HARMFUL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Remove characters that would change how the text around them is read. */
export function sanitize(text: string): string {
  return text.replace(HARMFUL, '');
}

/** Return the label of a name that comes from a job; an unknown name is its own label. */
export function labelFor(name: string, known: Partial<Record<string, string>>): string {
  return (Object.hasOwn(known, name) ? known[name] : undefined) ?? sanitize(name);
}

/** Return a span of time in its largest unit: `12 s`, `2 m`, `1 h`, `3 d`. */
export function span(seconds: number, trans: Translator): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) {
    return trans.__('%1 s', whole);
  }
  if (whole < 3600) {
    return trans.__('%1 m', Math.floor(whole / 60));
  }
  if (whole < 86_400) {
    return trans.__('%1 h', Math.floor(whole / 3600));
  }
  return trans.__('%1 d', Math.floor(whole / 86_400));
}

const TIME_UNITS = [86_400, 3600, 60];

/** Return a span of time in its two largest units: `2 m 14 s`. */
export function duration(seconds: number, trans: Translator): string {
  const whole = Math.max(0, Math.floor(seconds));
  const at = TIME_UNITS.findIndex(unit => whole >= unit);
  const rest = whole % (TIME_UNITS[at] ?? 1);
  const two = rest >= (TIME_UNITS[at + 1] ?? 1);
  return two ? `${span(whole, trans)} ${span(rest, trans)}` : span(whole, trans);
}

// Made once: making one takes longer than the rest of a row of the list. 24 hours, as in the log.
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

/** Return the time of day, with the date unless it is today. */
export function clock(seconds: number): string {
  const time = new Date(seconds * 1000);
  if (Number.isNaN(time.getTime())) {
    return ''; // from a damaged file; format() would throw
  }
  const today = time.toDateString() === new Date().toDateString();
  return (today ? TODAY : WHOLE).format(time);
}

/** Return how much is done, from 0 to 1; null if that is not known. */
export function fraction(progress: Progress | null): number | null {
  const done = progress?.fraction;
  return typeof done === 'number' && Number.isFinite(done) ? Math.min(1, Math.max(0, done)) : null;
}

/** Return how far a job is: `62 %`, or `step 1240`; empty if that is not known. */
export function progress(row: Row, trans: Translator): string {
  const done = fraction(row.progress);
  if (done !== null) {
    return trans.__('%1 %', Math.floor(done * 100));
  }
  return row.progress ? trans.__('step %1', row.progress.step) : '';
}

const BYTE_UNITS = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];

/** Return a number of bytes in decimal units: `188 MB`. */
export function formatBytes(count: number): string {
  let value = Math.max(0, count);
  let unit = 0;
  while (value >= 999.5 && unit < BYTE_UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  const text = unit > 0 && value < 9.95 ? value.toFixed(1).replace('.0', '') : value.toFixed(0);
  return `${text} ${BYTE_UNITS[unit]}`;
}

/** Return a value with at most five significant digits, and whole numbers as they are. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) {
    return '–';
  }
  if (Number.isInteger(value) && Math.abs(value) < 1e7) {
    return String(value);
  }
  const size = Math.abs(value);
  if (size >= 1000 && size < 1e7) {
    return value.toFixed(1);
  }
  if (size < 1e-3) {
    return value.toExponential(3).replace(/\.?0*e/, 'e');
  }
  return String(Number(value.toPrecision(4))).replace('e+', 'e');
}
