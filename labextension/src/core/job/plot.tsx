import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';

import { formatNumber, sanitize } from '../base/format';
import type { Host } from '../base/host';
import type { Translator } from '../base/translator';
import { Chart, loadPlots } from '../plots/chart';
import { csvOf, fileName, pngOf, saveFile } from '../plots/files';
import { extent, factsOf, type Line, lineOf, type Range, valueAt } from '../plots/lines';
import type { Column } from '../plots/metrics';
import { onTheme, SERIES } from '../plots/theme';

/** A metric of one job, or of one of its ranks. */
export interface Part {
  job: string;
  rank: number | null;
  label: string;
  column: Column | null;
  /** When the job began: x is the time since then. Null: x is the step. */
  began: number | null;
}

interface PlotProps {
  name: string;
  parts: readonly Part[];
  /** Another number when the columns have grown. */
  version: number;
  log: boolean;
  /** The first three parts are the least, the median and the most: they are drawn as a band. */
  band?: boolean;
  range: Range | null;
  onZoom: (range: Range | null) => void;
  xText: (x: number) => string;
  host: Host;
}

/** One metric of one or more jobs over steps or time. */
export function Plot(props: PlotProps) {
  const { name, parts, version, log, band = false, range, onZoom, xText, host } = props;
  const { trans } = host;
  const id = useId();
  const place = useRef<HTMLDivElement>(null);
  const [chart, setChart] = useState<Chart | null>(null);
  const [failed, setFailed] = useState(false);
  const [hover, setHover] = useState<number | null>(null);
  const [byKey, setByKey] = useState(false); // announce values only to keyboard users
  const seen = useSeen(place);
  const time = parts[0]?.began !== null;
  const lines = useMemo(
    () => parts.map(({ column, began }) => lineOf(column, began)),
    [version, ...parts.flatMap(({ column, began }) => [column, began])]
  );
  const zoom = useRef(onZoom);
  zoom.current = onZoom;

  useEffect(() => {
    let made: Chart | null = null;
    let gone = false;
    if (!seen) {
      return;
    }
    loadPlots().then(
      maker => {
        if (!gone && place.current) {
          made = new Chart(maker, place.current, {
            time,
            log,
            band,
            xText,
            onHover: setHover,
            onZoom: part => zoom.current(part)
          });
          setChart(made);
          setFailed(false);
        }
      },
      () => setFailed(true)
    );
    return () => {
      gone = true;
      made?.dispose();
      setChart(null);
    };
  }, [time, log, band, xText, seen]);
  useLayoutEffect(() => chart?.draw(lines, range), [chart, lines, range]);
  useEffect(() => {
    if (!chart || !place.current) {
      return;
    }
    const observer = new ResizeObserver(() => chart.resize());
    observer.observe(place.current);
    const stop = onTheme(() => chart.repaint());
    return () => {
      observer.disconnect();
      stop();
    };
  }, [chart]);

  const savePng = async () => {
    if (chart?.canvas) {
      const { series, text, background } = chart.colours;
      const labels = parts.map(({ label }, index) => ({
        text: label,
        colour: series[index % SERIES] ?? text
      }));
      const { canvas } = chart;
      const picture = await pngOf({ canvas, title: sanitize(name), labels, background, text });
      if (picture) {
        saveFile(`${fileName(parts[0]?.job ?? '', name)}.png`, picture);
      }
    }
  };
  const saveCsv = () => {
    const content = new Blob([csvOf(name, parts)], { type: 'text/csv' });
    saveFile(`${fileName(parts[0]?.job ?? '', name)}.csv`, content);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const by = ({ ArrowLeft: -1, ArrowRight: 1 } as const)[event.key];
    if (by !== undefined) {
      setByKey(true);
    }
    // At the edge, the arrow keys pan the visible range instead.
    if (by === undefined || event.shiftKey || chart?.step(by) !== true) {
      const next = moved(event.key, range, extent(lines));
      if (next === undefined) {
        return;
      }
      onZoom(next);
    }
    event.preventDefault();
    event.stopPropagation();
  };
  const labels = parts.map(({ label }) => label);
  const said = byKey && hover !== null ? valuesAt(labels, lines, hover, xText) : '';

  const title = sanitize(name);
  return (
    <figure class="jaxtrain-plot" aria-label={title}>
      <figcaption>
        <b>{title}</b>
        <span class="jaxtrain-quiet" aria-hidden="true">
          {hover !== null && xText(hover)}
        </span>
        <span class="jaxtrain-tools">
          <button
            type="button"
            class="jaxtrain-small"
            aria-label={trans.__('Save %1 as CSV', title)}
            onClick={saveCsv}
          >
            CSV
          </button>
          <button
            type="button"
            class="jaxtrain-small"
            aria-label={trans.__('Save %1 as PNG', title)}
            disabled={!chart}
            onClick={() => void savePng()}
          >
            PNG
          </button>
        </span>
        <Legend parts={parts} lines={lines} at={hover} />
      </figcaption>
      <div
        ref={place}
        class="jaxtrain-canvas"
        role="group"
        tabIndex={0}
        data-keys={trans.__('← → values · + − zoom · 0 all')}
        aria-label={trans.__(
          'Plot of %1: arrow keys step through the values, plus and minus zoom, 0 shows all',
          title
        )}
        aria-describedby={id}
        onKeyDown={onKeyDown}
        onPointerMove={() => setByKey(false)}
        onBlur={() => {
          setByKey(false);
          chart?.leave();
        }}
      >
        {failed && <p class="jaxtrain-quiet">{trans.__('The plot could not be loaded.')}</p>}
      </div>
      <p class="jaxtrain-unseen" role="status">
        {said}
      </p>
      <p id={id} class="jaxtrain-hidden">
        {parts.map(({ label }, index) => describePlot(label, lines[index], xText, trans)).join(' ')}
      </p>
    </figure>
  );
}

interface LegendProps {
  parts: readonly Part[];
  lines: readonly Line[];
  /** The x whose values are shown; null: the last ones. */
  at: number | null;
}

/** The values under the pointer, or the last ones. */
function Legend({ parts, lines, at }: LegendProps) {
  return (
    <span class="jaxtrain-legend" aria-hidden="true">
      {parts.map(({ label }, index) => {
        const line = lines[index] ?? { xs: [], ys: [] };
        const value = at === null ? (line.ys.at(-1) ?? null) : valueAt(line, at);
        return (
          <span key={label} data-series={index % SERIES}>
            {parts.length > 1 && <i>{sanitize(label)} </i>}
            <span>{value === null ? '–' : formatNumber(value)}</span>
          </span>
        );
      })}
    </span>
  );
}

/** Return the range after a key to pan or zoom; undefined for other keys. */
export function moved(
  key: string,
  range: Range | null,
  whole: Range | null
): Range | null | undefined {
  if (!whole) {
    return undefined;
  }
  const [from, to] = range ?? whole;
  const width = to - from;
  const fit = (start: number, length: number): Range | null => {
    if (length >= whole[1] - whole[0]) {
      return null;
    }
    const at = Math.max(whole[0], Math.min(whole[1] - length, start));
    return [at, at + length];
  };
  switch (key) {
    case '+':
    case '=':
      return fit(from + width / 4, width / 2);
    case '-':
      return fit(from - width / 2, width * 2);
    case 'ArrowLeft':
      return range && fit(from - width / 4, width);
    case 'ArrowRight':
      return range && fit(from + width / 4, width);
    case '0':
      return null;
    default:
      return undefined;
  }
}

/** Return whether an element is, or ever was, near the viewport. */
function useSeen(place: { current: HTMLElement | null }): boolean {
  const [seen, setSeen] = useState(typeof IntersectionObserver === 'undefined');
  useEffect(() => {
    if (seen || !place.current) {
      return;
    }
    const observer = new IntersectionObserver(
      entries => setSeen(before => before || entries.some(entry => entry.isIntersecting)),
      { rootMargin: '300px' }
    );
    observer.observe(place.current);
    return () => observer.disconnect();
  }, [seen]);
  return seen;
}

/** Return the values at a point, for screen readers. */
function valuesAt(
  labels: readonly string[],
  lines: readonly Line[],
  at: number,
  xText: (x: number) => string
): string {
  const values = labels.map((label, index) => {
    const value = valueAt(lines[index] ?? { xs: [], ys: [] }, at);
    return `${sanitize(label)} ${value === null ? '–' : formatNumber(value)}`;
  });
  return `${xText(at)}: ${values.join(', ')}`;
}

/** Return a description of a line, for screen readers. */
function describePlot(
  label: string,
  line: Line | undefined,
  xText: (x: number) => string,
  trans: Translator
): string {
  const facts = line ? factsOf(line) : null;
  if (!facts) {
    return trans.__('%1: no reports.', sanitize(label));
  }
  const { count, last, at, least, most } = facts;
  const value = Number.isNaN(last) ? trans.__('not a number') : formatNumber(last);
  const head = trans.__('%1: last %2 at %3', sanitize(label), value, xText(at));
  const span =
    least === null || most === null
      ? ''
      : trans.__(', min %1, max %2', formatNumber(least), formatNumber(most));
  return `${head}${span}, ${trans._n('%1 report.', '%1 reports.', count)}`;
}
