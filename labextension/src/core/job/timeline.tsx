import { useCallback } from 'preact/hooks';

import { clock, duration } from '../base/format';
import { useTimedText } from '../base/hooks';
import type { JobState, Row } from '../base/protocol';
import { group, stateLabel } from '../base/states';
import type { Translator } from '../base/translator';

const MOST = 40; // a job that was suspended again and again
const LEAST = 0.015; // of the bar, for the shortest part

interface Part {
  state: JobState['state'];
  from: number;
  /** Null: it lasts. */
  to: number | null;
}

/** Return the states of a job with their ends. */
export function partsOf(row: Row, state: JobState): Part[] {
  const parts = state.history.map(({ state: name, time }, index): Part => {
    const next = state.history[index + 1]?.time;
    const end = next ?? (row.active ? null : Math.max(time, row.ended ?? time));
    return { state: name, from: time, to: end };
  });
  return parts.slice(-MOST);
}

/** Return start and end of each part of the bar, in percent; short parts are widened to be visible. */
export function sharesOf(seconds: readonly number[]): [number, number][] {
  const least = Math.max(0.1, LEAST * seconds.reduce((sum, each) => sum + each, 0));
  const sizes = seconds.map(each => Math.max(each, least));
  const percent = 100 / sizes.reduce((sum, each) => sum + each, 0);
  let end = 0;
  return sizes.map(size => [end, (end += size * percent)]);
}

/** The states of a job as a bar, with widths proportional to durations, and as a list. */
export function Timeline({ row, state, trans }: { row: Row; state: JobState; trans: Translator }) {
  const parts = partsOf(row, state);
  const last = parts.at(-1);
  const now = Number(
    useTimedText(useCallback(now => (last?.to === null ? String(now) : '0'), [last]))
  );
  if (parts.length === 0) {
    return null;
  }
  const shares = sharesOf(parts.map(({ from, to }) => (to ?? now) - from));
  return (
    <div class="jaxtrain-times">
      <div class="jaxtrain-spans" aria-hidden="true">
        {parts.map((part, index) => (
          <Span key={index} part={part} share={shares[index] ?? [0, 100]} trans={trans} />
        ))}
      </div>
      <ol class="jaxtrain-timeline" aria-label={trans.__('States')}>
        {parts.map((part, index) => (
          <Entry key={index} part={part} last={index === parts.length - 1} trans={trans} />
        ))}
      </ol>
    </div>
  );
}

interface PartProps {
  part: Part;
  trans: Translator;
}

/** Return how long a part has taken, kept up to date while it lasts. */
function useLength({ from, to }: Part, trans: Translator): { seconds: number; text: string } {
  const shown = useTimedText(
    useCallback((now: number) => String(Math.floor((to ?? now) - from)), [from, to])
  );
  const seconds = Math.max(0, Number(shown));
  return { seconds, text: duration(seconds, trans) };
}

/** A part of the bar. All parts overlap and are clipped to size, so that none shifts another. */
function Span({ part, share: [from, to], trans }: PartProps & { share: [number, number] }) {
  const { seconds, text } = useLength(part, trans);
  const word = stateLabel(part.state, trans);
  const since = trans.__('since %1', clock(part.from));
  return (
    <div
      data-group={group(part.state)}
      data-state={part.state}
      style={{ clipPath: `inset(0 ${(100 - to).toFixed(2)}% 0 ${from.toFixed(2)}%)` }}
      title={`${word} · ${text} · ${since}`}
    >
      <span
        style={{
          width: `${(to - from).toFixed(2)}cqw`,
          transform: `translateX(${from.toFixed(2)}cqw)`
        }}
      >
        {/* One text node: with several, the space between them would cause a layout shift. */}
        <span>{seconds > 0 ? `${word} ${text}` : word}</span>
      </span>
    </div>
  );
}

function Entry({ part, last, trans }: PartProps & { last: boolean }) {
  const { seconds, text } = useLength(part, trans);
  const at = new Date(part.from * 1000);
  return (
    <li data-group={group(part.state)} title={trans.__('since %1', clock(part.from))}>
      <span class="jaxtrain-dot" aria-hidden="true" />
      {stateLabel(part.state, trans)}{' '}
      <time dateTime={Number.isNaN(at.getTime()) ? '' : at.toISOString()}>
        {last && seconds === 0 ? clock(part.from) : text}
      </time>
    </li>
  );
}
