import { formatNumber, sanitize } from '../base/format';
import type { JobSummary } from '../base/protocol';
import type { Translator } from '../base/translator';
import { factsOf, type Line, lineOf } from '../plots/lines';

const WIDTH = 120;
const HEIGHT = 22;
const EDGE = 2; // so that the line is not cut at its extremes

type Spark = NonNullable<JobSummary['spark']>;

/** A metric in small: its name, its last value, and how it came there. */
export function Sparkline({ spark, trans }: { spark: Spark; trans: Translator }) {
  const line = lineOf(
    {
      steps: spark.points.map(([step]) => step),
      times: [],
      values: spark.points.map(([, value]) => (typeof value === 'number' ? value : NaN))
    },
    null
  );
  const facts = factsOf(line);
  if (!facts) {
    return null;
  }
  const name = sanitize(spark.name);
  const said =
    facts.least === null || facts.most === null
      ? trans.__('%1: no values yet', name)
      : trans.__(
          '%1 is %2 at step %3 (min %4, max %5)',
          name,
          formatNumber(facts.last),
          facts.at,
          formatNumber(facts.least),
          formatNumber(facts.most)
        );
  return (
    <span class="jaxtrain-spark">
      <span>
        {name} <b>{formatNumber(facts.last)}</b>
      </span>
      <svg
        role="img"
        aria-label={said}
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        width={WIDTH}
        height={HEIGHT}
        preserveAspectRatio="none"
      >
        <title>{said}</title>
        <path d={pathOf(line, facts.least ?? 0, facts.most ?? 0)} />
      </svg>
    </span>
  );
}

/** Draw a line over the whole picture; what is no number is a gap. */
export function pathOf({ xs, ys }: Line, least: number, most: number): string {
  const from = xs[0] ?? 0;
  const wide = (xs.at(-1) ?? 0) - from || 1;
  const high = most - least;
  const round = (value: number) => Math.round(value * 10) / 10;
  let pen = 'M';
  const parts = ys.map((y, index) => {
    if (Number.isNaN(y)) {
      pen = 'M';
      return '';
    }
    const x = round((((xs[index] ?? 0) - from) / wide) * WIDTH);
    const up = high > 0 ? (y - least) / high : 0.5;
    const part = `${pen}${x} ${round(HEIGHT - EDGE - up * (HEIGHT - 2 * EDGE))}`;
    pen = 'L';
    return part;
  });
  const path = parts.join('');
  return ys.length === 1 ? `${path}h${WIDTH}` : path; // one point alone would not be seen
}
