/** One plot, drawn by uPlot, which is loaded with the first of them. */

import type uPlot from 'uplot';

import { formatNumber } from '../base/format';
import { extent, join, type Line, type Range, thin } from './lines';
import { type Colours, coloursAt, dashOf, SERIES } from './theme';

type Maker = typeof uPlot;

let loading: Promise<Maker> | undefined;

/** Load uPlot, once. */
export async function loadPlots(): Promise<Maker> {
  loading ??= import('uplot').then(module => module.default);
  try {
    return await loading;
  } catch (error) {
    loading = undefined; // the next plot tries again
    throw error;
  }
}

export const HEIGHT = 170;
const LEAST = 1; // places of lines
const MOST = 3;
// eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- it is in types alone
const LOG = 3 as uPlot.Scale.Distr;

/** Steps of an axis of time, in seconds, that are whole units where they can be. */
const TIMES = [1, 2, 5, 10, 15, 30].flatMap(count => [count, count * 60]);
const LONG_TIMES = [1, 2, 3, 6, 12, 24, 48, 96, 240, 480, 960].map(hours => hours * 3600);
const STEPS = [0.01, 0.1, 0.2, 0.5, ...TIMES, ...LONG_TIMES].sort((a, b) => a - b);

export interface ChartOptions {
  /** Whether x is a time, not a step. */
  time: boolean;
  log: boolean;
  /** The first three lines are the least, the median and the most. */
  band: boolean;
  /** Formats a position of the x axis. */
  xText: (x: number) => string;
  /** The user wants to see this part; null: all of it. */
  onZoom: (range: Range | null) => void;
  /** The pointer is at this x; null: it is elsewhere. */
  onHover: (x: number | null) => void;
}

/** A plot in an element that has a size. Other options need another chart. */
export class Chart {
  #element: HTMLElement;
  #options: ChartOptions;
  #maker: Maker;
  #plot: uPlot | null = null;
  #lines: readonly Line[] = [];
  #range: Range | null = null;
  colours: Colours;

  constructor(maker: Maker, element: HTMLElement, options: ChartOptions) {
    this.#maker = maker;
    this.#element = element;
    this.#options = options;
    this.colours = coloursAt(element);
  }

  /** The part that is seen. */
  get seen(): Range | null {
    return this.#range ?? extent(this.#lines);
  }

  get canvas(): HTMLCanvasElement | null {
    return this.#plot?.ctx.canvas ?? null;
  }

  /** Draw lines, all of them or a part. */
  draw(lines: readonly Line[], range: Range | null): void {
    const others = lines.length !== this.#lines.length;
    this.#lines = lines;
    this.#range = range;
    const { seen } = this;
    if (!seen) {
      this.dispose();
      return;
    }
    if (others) {
      this.dispose();
    }
    const width = this.#width();
    const table = join(
      lines.map(line => thin(line, seen, width)),
      this.#options.log
    );
    const plot = (this.#plot ??= this.#make(width));
    plot.batch(() => {
      plot.setData(table, false);
      plot.setScale('x', { min: seen[0], max: seen[1] });
    });
  }

  /** Adapt to the size of the element. */
  resize(): void {
    const width = this.#width();
    if (this.#plot && this.#plot.width !== width) {
      this.#plot.setSize({ width, height: HEIGHT });
      this.draw(this.#lines, this.#range);
    }
  }

  /** Put the cursor on the next place with a value, or the one before; false where there is none. */
  step(by: 1 | -1): boolean {
    const plot = this.#plot;
    const { seen } = this;
    if (!plot || !seen) {
      return false;
    }
    const [xs = []] = plot.data;
    const inside = (x: number | undefined) => x !== undefined && x >= seen[0] && x <= seen[1];
    const shown = (plot.cursor.left ?? -1) >= 0 ? plot.cursor.idx : null;
    let at = shown ?? (by > 0 ? -1 : xs.length);
    do {
      at += by;
    } while (at in xs && shown === null && !inside(xs[at]));
    const x = xs[at];
    if (x === undefined || !inside(x)) {
      return false;
    }
    plot.setCursor({ left: plot.valToPos(x, 'x'), top: 0 });
    return true;
  }

  /** Remove the cursor. */
  leave(): void {
    this.#plot?.setCursor({ left: -10, top: -10 });
  }

  /** Redraw with the colours of the theme. */
  repaint(): void {
    this.colours = coloursAt(this.#element);
    this.dispose();
    this.draw(this.#lines, this.#range);
  }

  dispose(): void {
    this.#plot?.destroy();
    this.#plot = null;
  }

  #width(): number {
    return Math.max(120, Math.floor(this.#element.clientWidth));
  }

  #make(width: number): uPlot {
    const { time, log, band, xText, onZoom, onHover } = this.#options;
    const { series, text, grid } = this.colours;
    const axis = {
      stroke: text,
      font: '11px system-ui, sans-serif',
      grid: { stroke: grid, width: 1 },
      ticks: { show: false }
    };
    const options: uPlot.Options = {
      width,
      height: HEIGHT,
      legend: { show: false },
      padding: [8, 12, 0, 0],
      scales: { x: { time: false }, y: log ? { distr: LOG } : {} },
      axes: [
        {
          ...axis,
          grid: { show: false },
          size: 26,
          space: time ? 70 : 50,
          ...(time && { incrs: STEPS }),
          values: (_, splits) => splits.map(xText)
        },
        {
          ...axis,
          size: 56,
          // On a log axis some splits are null and get no label.
          values: (_, splits) =>
            splits.map(value => ((value as number | null) !== null ? formatNumber(value) : null))
        }
      ],
      series: [
        {},
        ...this.#lines.map((_, index) => ({
          stroke: series[index % SERIES] ?? text,
          width: 1.5,
          dash: dashOf(index),
          points: { size: 4 }
        }))
      ],
      ...(band && { bands: [{ series: [MOST, LEAST], fill: grid }] }),
      cursor: {
        y: false,
        points: { size: 6 },
        drag: { x: true, y: false, setScale: false },
        bind: {
          dblclick: () => () => {
            onZoom(null);
            return null;
          }
        }
      },
      hooks: {
        setSelect: [
          plot => {
            const { left, width: chosen } = plot.select;
            if (chosen > 3) {
              onZoom([plot.posToVal(left, 'x'), plot.posToVal(left + chosen, 'x')]);
            }
            plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          }
        ],
        setCursor: [
          plot => {
            const { left, idx } = plot.cursor;
            const at = typeof idx === 'number' && (left ?? -1) >= 0 ? plot.data[0][idx] : undefined;
            onHover(at ?? null);
          }
        ]
      }
    };
    return new this.#maker(options, [[], ...this.#lines.map(() => [])], this.#element);
  }
}
