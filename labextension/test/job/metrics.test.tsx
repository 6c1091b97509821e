import type uPlot from 'uplot';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Point } from '../../src/core/base/protocol';
import { moved } from '../../src/core/job/plot';
import { keepLook, loadPlotSettings } from '../../src/core/job/plotsettings';
import {
  all,
  button,
  doing,
  find,
  host,
  press,
  root,
  say,
  settle,
  show,
  texts,
  useJob
} from '../fakes/jobview';
import { detail, row } from '../fakes/make';
import { FakePlot } from '../fakes/plot';
import { FakeSocket } from '../fakes/socket';

vi.mock('uplot', async () => ({ default: (await import('../fakes/plot')).FakePlot }));

useJob();

beforeEach(() => {
  FakePlot.all = [];
  vi.stubGlobal('IntersectionObserver', undefined);
});

afterEach(() => {
  vi.unstubAllGlobals();
});

function point(step: number, values: Record<string, unknown>, rank = 0): Point {
  return { time: 100 + step, rank, step, total: null, values: values as Point['values'] };
}

const POINTS = [
  point(0, { loss: 4, acc: 0.5 }),
  point(1, { loss: 2, acc: 'nan' }),
  point(2, { loss: 1, acc: 0.7 })
];

async function report(points = POINTS, nth = 0): Promise<void> {
  say({ kind: 'metrics', from: 0, points }, nth);
  await settle(300);
}

/** Let the host keep what it is told to. */
function remembers() {
  const storage = new Map<string, string>();
  Object.assign(host, {
    setItem: (name: string, text: string) => storage.set(name, text),
    getItem: (name: string) => storage.get(name) ?? null
  });
}

describe('the metrics of a job', () => {
  it('get a plot each, and words for those who cannot see it', async () => {
    show();
    expect(find('[data-section=metrics]').textContent).toContain('report(step=…');
    await report();
    expect(texts('figcaption > b')).toEqual(['loss', 'acc']);
    await vi.waitFor(() => expect(FakePlot.live).toHaveLength(2), 3000);
    expect(FakePlot.live.map(({ data }) => data)).toEqual([
      [
        [0, 1, 2],
        [4, 2, 1]
      ],
      [
        [0, 1, 2],
        [0.5, null, 0.7]
      ]
    ]);
    expect(texts('figure .jaxtrain-hidden')).toEqual([
      'mnist-4: last 1 at 2, min 1, max 4, 3 reports.',
      'mnist-4: last 0.7 at 2, min 0.5, max 0.7, 3 reports.'
    ]);
    expect(texts('.jaxtrain-legend')).toEqual(['1', '0.7']);
  });

  it('grow while the job runs, in the same plot', async () => {
    show();
    await report();
    say({ kind: 'metrics', from: 3, points: [point(3, { loss: 0.5 })] });
    await settle(300);
    expect(FakePlot.all).toHaveLength(2);
    expect(FakePlot.all[0]?.data[0]).toEqual([0, 1, 2, 3]);
    expect(FakePlot.all[0]?.x).toEqual({ min: 0, max: 3 });
  });

  it('are shown over time, and on a logarithmic scale', async () => {
    show({}, { history: [{ state: 'Running', time: 90 }] });
    await report();
    doing(() => button('Time').click());
    await settle();
    expect(FakePlot.live[0]?.data[0]).toEqual([10, 11, 12]);
    expect(button('Time').getAttribute('aria-pressed')).toBe('true');
    doing(() => button('Log').click());
    await settle();
    expect(FakePlot.live[0]?.options.scales?.['y']?.distr).toBe(3);
    expect(FakePlot.live).toHaveLength(2);
  });

  it('are zoomed together, by drag and by keys, and shown in full again', async () => {
    show();
    await report();
    const [plot] = FakePlot.live;
    expect(button('Show all').disabled).toBe(true);
    doing(() => {
      if (plot) {
        plot.select = { left: 1, width: 10 };
        plot.options.hooks?.setSelect?.[0]?.(plot as unknown as uPlot);
      }
    });
    expect(FakePlot.live.map(({ x }) => x)).toEqual([
      { min: 1, max: 11 },
      { min: 1, max: 11 }
    ]);
    doing(() => button('Show all').click());
    expect(plot?.x).toEqual({ min: 0, max: 2 });
    press('+', find('.jaxtrain-canvas'));
    expect(plot?.x).toEqual({ min: 0.5, max: 1.5 });
    press('0', find('.jaxtrain-canvas'));
    expect(plot?.x).toEqual({ min: 0, max: 2 });
  });

  it('say the values under the pointer', async () => {
    show();
    await report();
    const [plot] = FakePlot.live;
    const point = (idx: number | null) =>
      doing(() => {
        if (plot) {
          plot.cursor = { left: idx === null ? -10 : 5, idx };
          plot.options.hooks?.setCursor?.[0]?.(plot as unknown as uPlot);
        }
      });
    point(1);
    expect(texts('.jaxtrain-legend')[0]).toBe('2');
    point(null);
    expect(texts('.jaxtrain-legend')[0]).toBe('1');
  });

  it('say their values by the arrows, and go on with them at the edge', async () => {
    show();
    await report();
    const place = find('.jaxtrain-canvas');
    const said = () => texts('figure [role=status]')[0];
    press('ArrowRight', place);
    expect(said()).toBe('0: mnist-4 4');
    press('ArrowRight', place);
    expect(said()).toBe('1: mnist-4 2');
    expect(texts('.jaxtrain-legend')[0]).toBe('2');
    press('ArrowLeft', place);
    expect(said()).toBe('0: mnist-4 4');
    doing(() => place.dispatchEvent(new FocusEvent('blur')));
    expect(said()).toBe('');
    expect(texts('.jaxtrain-legend')[0]).toBe('1');
    press('ArrowLeft', place);
    expect(said()).toBe('2: mnist-4 1'); // from the end

    press('+', place); // 0.5 to 1.5, the cursor beyond it
    press('ArrowRight', place);
    expect(FakePlot.live[0]?.x).toEqual({ min: 0.75, max: 1.75 });
  });

  it('are of the first rank, of another, or of several over one another', async () => {
    show();
    await report([...POINTS, point(0, { loss: 9 }, 1), point(1, { loss: 8 }, 2)]);
    await settle(1000);
    doing(() => button('Choose').click());
    expect(button('first').getAttribute('aria-pressed')).toBe('true');
    doing(() => button('rank 1').click());
    expect(FakePlot.live[0]?.data).toEqual([[0], [9]]);
    doing(() => button('rank 2').click());
    await settle();
    expect(FakePlot.live[0]?.data).toEqual([
      [0, 1],
      [9, undefined],
      [undefined, 8]
    ]);
    expect(texts('.jaxtrain-legend')[0]).toBe('rank 1 9rank 2 8');
    doing(() => button('first').click());
    await settle();
    expect(texts('.jaxtrain-legend')[0]).toBe('1');
  });

  it('are left out and shown by their names', async () => {
    show();
    await report();
    await settle(1000);
    doing(() => button('Choose').click());
    doing(() => button('loss').click());
    expect(texts('figcaption b')).toEqual(['acc']);
    doing(() => button('loss').click());
    expect(texts('figcaption b')).toEqual(['loss', 'acc']);
  });

  it('are looked at as the last time', async () => {
    remembers();
    show();
    await report([...POINTS, point(0, { loss: 9 }, 1)]);
    await settle(1000);
    doing(() => button('Log').click());
    doing(() => button('Time').click());
    doing(() => button('Choose').click());
    doing(() => button('rank 1').click());
    doing(() => button('acc').click());
    const taste = { axis: 'time', log: true, range: null };
    const none = { ranks: [], hidden: [], others: [] };
    expect(loadPlotSettings(host, 'mnist-4')).toEqual({
      ...taste,
      ...none,
      ranks: [1],
      hidden: ['acc']
    });
    expect(loadPlotSettings(host, 'other')).toEqual({ ...taste, ...none });
  });

  it('are drawn over those of other jobs', async () => {
    remembers();
    show();
    await report();
    doing(() => button('Compare').click());
    say({ kind: 'jobs', all: true, rows: [row(), row({ key: 'sweep-16' }), row({ key: 'x' })] }, 1);
    expect(texts('.jaxtrain-compare .jaxtrain-name')).toEqual(['sweep-16', 'x']);
    doing(() => (find('.jaxtrain-compare input[type=checkbox]') as HTMLInputElement).click());
    expect(FakeSocket.last.sent.at(-1)).toMatchObject({ topic: 'job', key: 'sweep-16' });
    say({ kind: 'job', detail: detail({ row: row({ key: 'sweep-16' }) }) }, 2);
    await report([point(1, { loss: 7 }), point(5, { loss: 6 })], 2);
    expect(FakePlot.live[0]?.data).toEqual([
      [0, 1, 2, 5],
      [4, 2, 1, undefined],
      [undefined, 7, undefined, 6]
    ]);
    expect(texts('.jaxtrain-legend')[0]).toBe('mnist-4 1sweep-16 6');
    expect(loadPlotSettings(host, 'mnist-4').others).toEqual(['sweep-16']);
    doing(() => button('Remove sweep-16').click());
    expect(FakeSocket.last.sent.at(-1)).toMatchObject({ op: 'close' });
    expect(FakePlot.live[0]?.data).toHaveLength(2);
    expect(loadPlotSettings(host, 'mnist-4').others).toEqual([]);
  });

  it('are drawn over those of the jobs that were chosen before', async () => {
    remembers();
    keepLook(
      host,
      'mnist-4',
      { ...loadPlotSettings(host, 'mnist-4'), others: ['old'] },
      { others: [] }
    );
    show();
    await report();
    expect(FakeSocket.last.sent).toContainEqual(
      expect.objectContaining({ op: 'open', topic: 'job', key: 'old' })
    );
    doing(() => button('Remove old').click());
    expect(loadPlotSettings(host, 'mnist-4').others).toEqual([]);
  });

  it('can be taken away as CSV', async () => {
    const made: Blob[] = [];
    URL.createObjectURL = vi.fn((blob: Blob) => {
      made.push(blob);
      return 'blob:1';
    });
    show();
    await report();
    doing(() => button('Save acc as CSV').click());
    expect(await made[0]?.text()).toBe(
      'job,step,time,acc\r\nmnist-4,0,100,0.5\r\nmnist-4,1,101,\r\nmnist-4,2,102,0.7\r\n'
    );
  });

  it('are drawn anew in the colours of another theme', async () => {
    show();
    await report();
    await settle(300); // for the effects of the plots that have just been made
    document.body.setAttribute('data-jp-theme-name', 'JupyterLab Dark');
    await vi.waitFor(() => expect(FakePlot.all).toHaveLength(4), 3000);
    expect(FakePlot.live).toHaveLength(2);
    document.body.removeAttribute('data-jp-theme-name');
    expect(all('figure')).toHaveLength(2);
    expect(root.textContent).not.toContain('could not be loaded');
  });
});

describe('keys on a plot', () => {
  it('zoom and move within what there is', () => {
    expect(moved('+', null, [0, 100])).toEqual([25, 75]);
    expect(moved('-', [25, 75], [0, 100])).toBeNull();
    expect(moved('ArrowRight', [25, 75], [0, 100])).toEqual([37.5, 87.5]);
    expect(moved('ArrowLeft', [10, 60], [0, 100])).toEqual([0, 50]);
    expect(moved('x', null, [0, 100])).toBeUndefined();
    expect(moved('+', null, null)).toBeUndefined();
  });
});
