import { fraction, plain } from './format';
import { number } from './number';
import type { Progress } from './protocol';
import type { Words } from './translator';

const VALUES = 6;

interface NumbersProps {
  progress: Progress | null;
  words: Words;
}

/** Give the names of the metrics that were reported last, and what they are. */
export function valuesOf(progress: Progress | null): [name: string, value: string][] {
  return Object.entries<unknown>(progress?.metrics ?? {})
    .slice(0, VALUES)
    .map(([name, value]) => [
      plain(name),
      typeof value === 'number' ? number(value) : plain(String(value))
    ]);
}

/** How far a job is, and what it reported last. */
export function Numbers({ progress, words }: NumbersProps) {
  const done = fraction(progress);
  const total = progress?.total ? String(progress.total) : null;
  const step = progress
    ? total
      ? `${progress.step}/${total}`
      : words.__('step %1', progress.step)
    : '';
  // What stands behind a number must not move when that gets a digit more.
  const room = { minWidth: `${total ? 2 * total.length + 1 : 10}ch` };
  return (
    <>
      {done !== null && (
        <span style={{ minWidth: '5ch' }}>{words.__('%1 %', Math.floor(done * 100))}</span>
      )}
      {step && <span style={room}>{step}</span>}
      {valuesOf(progress).map(([name, value]) => (
        <span key={name}>
          {name} <b>{value}</b>
        </span>
      ))}
    </>
  );
}
