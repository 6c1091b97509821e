import { duration, sanitize } from '../base/format';
import type { Host } from '../base/host';
import type { CacheUse, LateRank, Spending } from '../base/protocol';
import type { Translator } from '../base/translator';
import { Section } from './section';
import { sharesOf } from './timeline';

function partLabel(name: string, trans: Translator): string {
  const known: Partial<Record<string, string>> = {
    waiting: trans.__('waiting'),
    starting: trans.__('starting'),
    importing: trans.__('importing'),
    compiling: trans.__('compiling'),
    data: trans.__('data'),
    host: trans.__('other Python'),
    steps: trans.__('steps'),
    checkpoints: trans.__('checkpoints'),
    other: trans.__('other'),
    late: trans.__('late')
  };
  return known[name] ?? sanitize(name);
}

/** Write a span of time, in milliseconds where it is short. */
function span(seconds: number, trans: Translator): string {
  return seconds < 1 ? trans.__('%1 ms', Math.round(1000 * seconds)) : duration(seconds, trans);
}

interface SpendingProps {
  spending: Spending | null;
  cache: CacheUse | null;
  host: Host;
}

/** Where the time of a job goes: a bar of its parts, what took long to compile, and who is late. */
export function SpendingPart({ spending, cache, host }: SpendingProps) {
  const { trans } = host;
  return (
    <Section
      name="spending"
      title={trans.__('Time')}
      host={host}
      note={spending ? trans.__('goodput %1 %', Math.round(100 * spending.goodput)) : ''}
      open={false}
    >
      {spending ? (
        <Spent spending={spending} cache={cache} trans={trans} />
      ) : (
        <>
          <p class="jaxtrain-quiet">{trans.__('The ranks have not reported timings yet.')}</p>
          <Cache cache={cache} trans={trans} />
        </>
      )}
    </Section>
  );
}

interface SpentProps {
  spending: Spending;
  cache: CacheUse | null;
  trans: Translator;
}

function Spent({ spending, cache, trans }: SpentProps) {
  const parts = Object.entries(spending.parts);
  return (
    <>
      <Bar parts={parts} shares={sharesOf(parts.map(([, seconds]) => seconds))} trans={trans} />
      <ul class="jaxtrain-parts" aria-label={trans.__('Where the time goes')}>
        {parts.map(([name, seconds]) => (
          <li key={name} data-part={name}>
            <span class="jaxtrain-dot" aria-hidden="true" />
            {partLabel(name, trans)} {span(seconds, trans)}
          </li>
        ))}
      </ul>
      {spending.functions.length > 0 && (
        <p class="jaxtrain-quiet">
          {trans.__('Compiled:')}{' '}
          {spending.functions
            .map(({ name, seconds }) => `${sanitize(name)} ${span(seconds, trans)}`)
            .join(', ')}
        </p>
      )}
      <Cache cache={cache} trans={trans} />
      {spending.late.length > 0 && <LateTable late={spending.late} trans={trans} />}
    </>
  );
}

/** Hits and misses of the compile cache, and the time it saved. */
function Cache({ cache, trans }: { cache: CacheUse | null; trans: Translator }) {
  if (cache === null) {
    return null;
  }
  const hits = trans._n('%1 hit', '%1 hits', cache.hits);
  const misses = trans._n('%1 miss', '%1 misses', cache.misses);
  return (
    <p class="jaxtrain-quiet">
      {cache.hits > 0
        ? trans.__('Compile cache: %1, %2, %3 saved', hits, misses, span(cache.saved, trans))
        : trans.__('Compile cache: %1, %2', hits, misses)}
    </p>
  );
}

interface BarProps {
  /** Each part with its seconds. */
  parts: readonly [string, number][];
  /** From where to where each goes, in per cent. */
  shares: readonly [number, number][];
  trans: Translator;
}

/** A bar of parts, which can be read beside it. */
function Bar({ parts, shares, trans }: BarProps) {
  return (
    <div class="jaxtrain-shares" aria-hidden="true">
      {parts.map(([name, seconds], index) => {
        const [from, to] = shares[index] ?? [0, 100];
        return (
          <div
            key={name}
            data-part={name}
            title={`${partLabel(name, trans)} · ${span(seconds, trans)}`}
            style={{ clipPath: `inset(0 ${(100 - to).toFixed(2)}% 0 ${from.toFixed(2)}%)` }}
          />
        );
      })}
    </div>
  );
}

const MOST = 16; // ranks; those that come last

function LateTable({ late, trans }: { late: readonly LateRank[]; trans: Translator }) {
  const shown = [...late].sort((a, b) => b.late - a.late).slice(0, MOST);
  return (
    <div class="jaxtrain-scroll">
      <table class="jaxtrain-ranks jaxtrain-late">
        <thead>
          <tr>
            <th scope="col">{trans.__('Rank')}</th>
            <th scope="col">{trans.__('Step')}</th>
            <th scope="col">{trans.__('Outside jax')}</th>
            <th scope="col">{trans.__('Late')}</th>
            <th scope="col" aria-hidden="true">
              {trans.__('Share of a step')}
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map(each => (
            <LateLine key={each.rank} {...each} trans={trans} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** How late a rank is, in numbers and as parts of its step. */
function LateLine({ rank, step, host, late, trans }: LateRank & { trans: Translator }) {
  // jax may compute while the rank is outside of it.
  const inJax = Math.max(0, step - host);
  const percent = 100 / Math.max(step, host, Number.MIN_VALUE);
  const [first, second] = [(host - late) * percent, host * percent];
  return (
    <tr>
      <th scope="row">{rank}</th>
      <td>{span(step, trans)}</td>
      <td>{span(host, trans)}</td>
      <td>{span(late, trans)}</td>
      <td aria-hidden="true">
        <Bar
          parts={[
            ['host', host - late],
            ['late', late],
            ['steps', inJax]
          ]}
          shares={[
            [0, first],
            [first, second],
            [second, 100]
          ]}
          trans={trans}
        />
      </td>
    </tr>
  );
}
