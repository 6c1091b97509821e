import { describe, expect, it, vi } from 'vitest';

import { formatNumber } from '../../src/core/base/format';
import type { Point } from '../../src/core/base/protocol';
import { csvOf, fileName } from '../../src/core/plots/files';
import { extent, factsOf, join, lineOf, thin, valueAt } from '../../src/core/plots/lines';
import { Metrics } from '../../src/core/plots/metrics';
import { dashOf } from '../../src/core/plots/theme';

function point(step: number, values: Record<string, unknown>, rank = 0): Point {
  return { time: 1000 + step, rank, step, total: null, values: values as Point['values'] };
}

describe('what a job has reported', () => {
  it('is kept by metric and rank, with gaps where a value is no number', () => {
    const metrics = new Metrics();
    metrics.put(0, [
      point(0, { loss: 2, acc: 0.1 }),
      point(1, { loss: 'nan' }),
      point(1, { loss: 3 }, 2)
    ]);
    expect(metrics.names).toEqual(['loss', 'acc']);
    expect(metrics.ranks()).toEqual([0, 2]);
    expect(metrics.column('loss')).toEqual({
      steps: [0, 1],
      times: [1000, 1001],
      values: [2, NaN]
    });
    expect(metrics.column('loss', 2)?.values).toEqual([3]);
    expect(metrics.column('acc', 2)).toBeNull();
    expect(metrics.column('lr')).toBeNull();
  });

  it('is the same after the server has said it again, and new when the job is', () => {
    const metrics = new Metrics();
    const told = vi.fn();
    metrics.subscribe(told);
    metrics.put(0, [point(0, { loss: 3 }), point(1, { loss: 2 })]);
    metrics.put(0, [point(0, { loss: 3 }), point(1, { loss: 2 }), point(2, { loss: 1 })]);
    metrics.put(3, [point(3, { loss: 0 })]);
    expect(metrics.column('loss')?.values).toEqual([3, 2, 1, 0]);
    expect(told).toHaveBeenCalledTimes(3);
    metrics.put(0, [point(7, { loss: 9 })]);
    expect(metrics.column('loss')?.values).toEqual([9]);
    metrics.put(0, []);
    expect(metrics.names).toEqual([]);
    expect(metrics.began).toBeNull();
  });
});

describe('a line', () => {
  it('is over steps, or over the time since the job began', () => {
    const column = { steps: [0, 10], times: [1005, 1007], values: [1, 2] };
    expect(lineOf(column, null)).toEqual({ xs: [0, 10], ys: [1, 2] });
    expect(lineOf(column, 1000)).toEqual({ xs: [5, 7], ys: [1, 2] });
    expect(lineOf(null, null)).toEqual({ xs: [], ys: [] });
  });

  it('is sorted, and what was done anew counts', () => {
    const column = { steps: [1, 2, 3, 2, 3], times: [1, 2, 3, 4, 5], values: [9, 8, 7, 6, 5] };
    expect(lineOf(column, null)).toEqual({ xs: [1, 2, 3], ys: [9, 6, 5] });
  });

  it('is thinned to the least and most of each pixel', () => {
    const count = 100_000;
    const xs = Array.from({ length: count }, (_, i) => i);
    const ys = xs.map(x => Math.sin(x / 5000));
    ys[4321] = 50;
    ys[4322] = -50;
    const line = thin({ xs, ys }, [0, count - 1], 500);
    expect(line.xs.length).toBeLessThan(1010);
    expect(line.ys).toContain(50);
    expect(line.ys).toContain(-50);
    expect([...line.xs].sort((a, b) => a - b)).toEqual(line.xs);
  });

  it('keeps gaps when it is thinned', () => {
    const xs = Array.from({ length: 10_000 }, (_, i) => i);
    const ys = xs.map(x => (x >= 4000 && x < 6000 ? NaN : 1));
    const line = thin({ xs, ys }, [0, 9999], 100);
    const gap = line.xs.filter((_, index) => Number.isNaN(line.ys[index]));
    expect(gap.length).toBeGreaterThan(15);
    expect(gap.every(x => x >= 4000 && x < 6000)).toBe(true);
  });

  it('is cut to what is seen, with a point more at each side', () => {
    const xs = [0, 1, 2, 3, 4, 5, 6];
    expect(thin({ xs, ys: xs }, [2.5, 3.5], 100).xs).toEqual([2, 3, 4, 5]);
    expect(thin({ xs, ys: xs }, [-9, 99], 100).xs).toEqual(xs);
  });

  it('has a value next to each place', () => {
    const line = { xs: [0, 10, 20], ys: [1, 2, 3] };
    expect([-5, 4, 6, 14, 16, 99].map(x => valueAt(line, x))).toEqual([1, 1, 2, 2, 3, 3]);
    expect(valueAt({ xs: [], ys: [] }, 3)).toBeNull();
  });

  it('can be told in words', () => {
    expect(factsOf({ xs: [1, 2, 3], ys: [4, NaN, 2] })).toEqual({
      count: 3,
      last: 2,
      at: 3,
      least: 2,
      most: 4
    });
    expect(factsOf({ xs: [1], ys: [NaN] })).toMatchObject({ least: null, most: null });
    expect(factsOf({ xs: [], ys: [] })).toBeNull();
  });
});

describe('lines over one another', () => {
  it('share their x; a place that one does not have is no gap', () => {
    const lines = [
      { xs: [0, 2], ys: [1, NaN] },
      { xs: [0, 1], ys: [5, -6] }
    ];
    expect(join(lines, false)).toEqual([
      [0, 1, 2],
      [1, undefined, null],
      [5, -6, undefined]
    ]);
    expect(join(lines, true)[2]).toEqual([5, null, undefined]);
  });

  it('have a range, and a single point has some room', () => {
    expect(extent([])).toBeNull();
    expect(extent([{ xs: [3], ys: [1] }])).toEqual([2.5, 3.5]);
    expect(
      extent([
        { xs: [3, 9], ys: [1, 1] },
        { xs: [1, 5], ys: [1, 1] }
      ])
    ).toEqual([1, 9]);
  });

  it('differ without their colours, too', () => {
    const [first, second, sixth] = [dashOf(0), dashOf(1), dashOf(5)];
    expect(first).toEqual([]);
    expect(second).not.toEqual(first);
    expect(sixth).not.toEqual(first);
  });
});

describe('words and files', () => {
  it('gives numbers with few digits', () => {
    expect([0, 12, 0.083123, 12345.678, 1.5e-9, 3e12, NaN].map(formatNumber)).toEqual([
      '0',
      '12',
      '0.08312',
      '12345.7',
      '1.5e-9',
      '3000000000000',
      '–'
    ]);
  });

  it('writes all reports as CSV, and no formulas', () => {
    const column = { steps: [0, 1], times: [5, 6.5], values: [1, NaN] };
    expect(csvOf('=a,"b"', [{ job: 'x-1', rank: null, column }])).toBe(
      'job,step,time,"\'=a,""b"""\r\nx-1,0,5,1\r\nx-1,1,6.5,\r\n'
    );
    expect(csvOf('a', [{ job: 'x-1', rank: 3, column }])).toBe(
      'job,rank,step,time,a\r\nx-1,3,0,5,1\r\nx-1,3,1,6.5,\r\n'
    );
    expect(fileName('x-1', 'val/loss ü')).toBe('x-1-val_loss_');
  });
});
