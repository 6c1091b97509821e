/** What the ranks of a job use: plots by rank, a band of many, and a small line for each. */

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Course, CourseLine } from '../../src/core/base/protocol';
import { all, button, doing, find, settle, show, texts, useJob, say } from '../fakes/jobview';
import { FakePlot } from '../fakes/plot';

vi.mock('uplot', async () => ({ default: (await import('../fakes/plot')).FakePlot }));

const line = (role: CourseLine['role'], rank: number | null, value: number): CourseLine => ({
  role,
  rank,
  points: [
    [100, value],
    [102, value + 1]
  ]
});

const memory: Course = {
  name: 'memory',
  limit: 16,
  lines: [line('rank', 0, 2), line('rank', 1, 3)]
};
const rank = (number: number) => ({
  rank: number,
  pid: 7,
  state: 'Running' as const,
  exit: null,
  restarts: 0,
  host: 'here',
  pod: null
});

beforeEach(() => {
  FakePlot.all = [];
  vi.stubGlobal('IntersectionObserver', undefined);
});

afterEach(() => {
  vi.unstubAllGlobals();
});

const legend = () => texts('[data-section=machine] .jaxtrain-legend i').map(label => label.trim());

/** Open the part, which may be open from before, and wait for its plots. */
async function unfold(): Promise<void> {
  if (find('[data-section=machine] .jaxtrain-fold').getAttribute('aria-expanded') !== 'true') {
    doing(() => button('▸ Machine').click());
  }
  await vi.waitFor(() => expect(FakePlot.live).toHaveLength(1), 3000);
}

describe('the machine of a job', () => {
  useJob();

  it('keeps its place for a job that says nothing of it', () => {
    show({}, { ranks: [rank(0)] });
    expect(all('[data-section=machine]')).toHaveLength(1);
    expect(texts('thead th')).toContain('Memory');
    expect(all('.jaxtrain-rank-spark path')).toEqual([]);
  });

  it('has a plot for each resource, by rank', async () => {
    show();
    say({ kind: 'machine', courses: [memory], sparks: [[2, 3], []] });
    await settle(300);
    await unfold();
    expect(texts('[data-section=machine] figcaption b')).toEqual([
      'Memory (GiB, of 16 for each rank)'
    ]);
    expect(legend()).toEqual(['rank 0', 'rank 1']);
    expect(FakePlot.live[0]?.options.bands).toBeUndefined();
  });

  it('draws a band of many ranks, and names the odd ones', async () => {
    const lines = [
      line('least', null, 1),
      line('median', null, 2),
      line('most', null, 9),
      line('rank', 77, 9)
    ];
    show();
    say({ kind: 'machine', courses: [{ name: 'cpu', limit: null, lines }], sparks: [] });
    await settle(300);
    await unfold();
    expect(legend()).toEqual(['min', 'median', 'max', 'rank 77']);
    expect(FakePlot.live[0]?.options.bands).toMatchObject([{ series: [3, 1] }]);
  });

  it('draws the memory of each rank in the table', async () => {
    show({}, { ranks: [rank(0), rank(1)] });
    say({ kind: 'machine', courses: [memory], sparks: [[2, 4, 3]] });
    await settle(1100);
    expect(find('[data-rank="0"] svg').getAttribute('aria-label')).toBe('3 GiB, at most 4 GiB');
    expect(all('[data-rank="1"] svg path')).toEqual([]);
  });

  it('says after an end for lack of memory how it went', () => {
    const usage = ['Memory of rank 0 in its last 59 s: 2 GiB → 16 GiB of 16 GiB.'];
    const failure = { rank: 0, kind: 'memory', message: 'was killed', exit: -9, usage };
    show({}, { state: 'Failed', failure });
    expect(find('.jaxtrain-failure').textContent).toContain(usage[0]);
  });
});
