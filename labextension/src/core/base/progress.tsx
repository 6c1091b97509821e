/** How far a job is: its bar, step, last metrics, age and times. */

import { useCallback } from 'preact/hooks';

import { etaOf } from './eta';
import { duration, formatNumber, fraction, sanitize, span } from './format';
import { useTimedText } from './hooks';
import type { JobState, Progress, Row } from './protocol';
import { group } from './states';
import type { Translator } from './translator';

const MOST_METRICS = 6;

/** How old something is, kept up to date. */
export function Age({ since, trans }: { since: number; trans: Translator }) {
  const text = useTimedText(useCallback((now: number) => span(now - since, trans), [since, trans]));
  return <span class="jaxtrain-age">{text}</span>;
}

/** How much of a job is done. */
export function Bar({ row, trans }: { row: Row; trans: Translator }) {
  const done = fraction(row.progress);
  if (done === null || !row.active) {
    return null;
  }
  const percent = Math.floor(done * 100);
  return (
    <div
      class="jaxtrain-bar"
      role="progressbar"
      aria-label={trans.__('Progress of %1', sanitize(row.name))}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={percent}
    >
      <div style={{ width: `${percent}%` }} />
    </div>
  );
}

/** Return why a job waits, failed or runs in an unusual way; empty for one that succeeded. */
export function reasonOf(row: Row): string {
  return row.reason && group(row.state) !== 'done' ? sanitize(row.reason) : '';
}

/** Return how long a job has taken, and how long it may still take, kept up to date. */
export function useTimes(row: Row, state: JobState | null, trans: Translator): string {
  const eta = etaOf(row);
  eta.observe(row, state);
  return useTimedText(
    useCallback(
      (now: number) => {
        if (row.created <= 0) {
          return '';
        }
        const took = (row.active ? now : (row.ended ?? row.created)) - row.created;
        const left = row.active ? eta.secondsLeft(now) : null;
        return [
          duration(took, trans),
          left === null ? '' : trans.__('about %1 left', duration(left, trans))
        ]
          .filter(Boolean)
          .join(' · ');
      },
      [row, state, trans, eta]
    )
  );
}

/** Return the metrics that were reported last, by name. */
export function lastMetrics(progress: Progress | null): [name: string, value: string][] {
  return Object.entries<unknown>(progress?.metrics ?? {})
    .slice(0, MOST_METRICS)
    .map(([name, value]) => [
      sanitize(name),
      typeof value === 'number' ? formatNumber(value) : sanitize(String(value))
    ]);
}

interface NumbersProps {
  progress: Progress | null;
  trans: Translator;
}

/** The fraction done, the step, and the metrics that were reported last. */
export function Numbers({ progress, trans }: NumbersProps) {
  const done = fraction(progress);
  const total = progress?.total ? String(progress.total) : null;
  const step = progress
    ? total
      ? `${progress.step}/${total}`
      : trans.__('step %1', progress.step)
    : '';
  // A number that gets one digit more must not move what follows it.
  const room = { minWidth: `${total ? 2 * total.length + 1 : 10}ch` };
  return (
    <>
      {done !== null && (
        <span style={{ minWidth: '5ch' }}>{trans.__('%1 %', Math.floor(done * 100))}</span>
      )}
      {step && <span style={room}>{step}</span>}
      {lastMetrics(progress).map(([name, value]) => (
        <span key={name}>
          {name} <b>{value}</b>
        </span>
      ))}
    </>
  );
}
