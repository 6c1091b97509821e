/** Times of lines. */

export const TIMES = ['clock', 'since', 'off'] as const;
export type Times = (typeof TIMES)[number];

const two = (value: number) => String(value).padStart(2, '0');

/**
 * Return the time of a line for display: time of day, time since the job began, or nothing. An
 * unknown time is blank, with the same width.
 */
export function timeOf(time: number | null, times: Times, began: number): string {
  if (times === 'off') {
    return '';
  }
  if (time === null) {
    return ' '.repeat(times === 'clock' ? 8 : 9);
  }
  if (times === 'clock') {
    const date = new Date(time * 1000);
    return [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':');
  }
  const since = Math.max(0, Math.floor(time - began));
  return `+${two(Math.floor(since / 3600))}:${two(Math.floor(since / 60) % 60)}:${two(since % 60)}`;
}

// Made once: to make one takes longer than to draw the line.
const WHOLE = new Intl.DateTimeFormat([], {
  dateStyle: 'short',
  timeStyle: 'medium',
  hourCycle: 'h23'
});

/** Return date and time of a line in the user's locale; empty if unknown. */
export function dayOf(time: number | null): string {
  return time === null ? '' : WHOLE.format(time * 1000);
}

const DAY = /^(\d{4})-(\d{1,2})-(\d{1,2})(?:[T\s]+(?=\d)|$)/;

/**
 * Read a time that somebody typed, `14:30` or `14:30:05` of the day on which the job began or the
 * next one, `2026-11-23 14:30` or a day alone, or `+90`, `+1:30` (minutes and seconds), `+1:02:03`
 * since the job began; null when it is none.
 */
export function readTime(text: string, began: number): number | null {
  const typed = text.trim();
  const day = DAY.exec(typed);
  const rest = day ? typed.slice(day[0].length) || '0:00' : typed;
  const found = /^(\+?)(\d+)(?::([0-5]?\d))?(?::([0-5]?\d))?$/.exec(rest);
  if (!found) {
    return null;
  }
  const numbers = found.slice(2).filter(Boolean).map(Number);
  if (found[1]) {
    return began + numbers.reduce((whole, part) => whole * 60 + part, 0);
  }
  const [hours = 0, minutes = 0, seconds = 0] = numbers;
  if (numbers.length < 2 || hours > 23) {
    return null;
  }
  if (day) {
    const [year = 0, month = 0, date = 0] = day.slice(1).map(Number);
    const named = new Date(year, month - 1, date, hours, minutes, seconds);
    const exists = named.getMonth() === month - 1 && named.getDate() === date;
    return exists ? named.getTime() / 1000 : null;
  }
  const date = new Date(began * 1000);
  date.setHours(hours, minutes, seconds, 0);
  if (date.getTime() < began * 1000 - 60_000) {
    date.setDate(date.getDate() + 1);
  }
  return date.getTime() / 1000;
}
