import { describe, expect, it, vi } from 'vitest';

import type { ProfileState, ProfileSummary, RankSummary } from '../../src/core/base/protocol';
import {
  all,
  button,
  doing,
  find,
  host,
  root,
  settle,
  show,
  texts,
  useJob
} from '../fakes/jobview';
import { ended, row } from '../fakes/make';

const EVIL = '<img src=x onerror="window.hacked = 1">';
const saveTrace = vi.fn<(key: string, profile: string, rank: number) => void>();
const openXprof = vi.fn<(key: string, profile: string) => void>();
const asked: string[] = [];
let answer: () => Promise<unknown>;

useJob(() => ({
  saveTrace,
  openXprof,
  get: <T,>(path: string) => {
    asked.push(path);
    return answer() as Promise<T>;
  }
}));

function profile(name: string, change: Partial<ProfileState> = {}): ProfileState {
  const ranks = [
    { rank: 0, files: { 'trace.xplane.pb': 9 } },
    { rank: 1, files: {} }
  ];
  return { name, time: 1, whole: true, ranks, ...change };
}

function summary(name: string): ProfileSummary {
  const one: RankSummary = {
    rank: 0,
    platform: 'cpu',
    devices: 2,
    seconds: 5,
    busy: 4,
    collectives: 1,
    operations: [],
    allocations: [{ where: EVIL, device: 'cpu:0', size: 2e6, count: 1 }],
    cut: false,
    problem: null
  };
  const dead = { ...one, rank: 1, problem: 'the rank ended', allocations: [] };
  const operation = { name: EVIL, module: 'jit_f', seconds: 2, count: 9, most: 2, rank: 0 };
  return {
    name,
    bound: null,
    notes: ['A CPU can not tell.'],
    ranks: [one, dead],
    operations: [{ ...operation, collective: false }],
    xprof: true
  };
}

describe('the profile of a job', () => {
  it('is taken by a button while the job runs', () => {
    show({ row: row({ profiles: false }) });
    doing(() => button('▸ Profile').click());
    expect(texts('[data-section=profile] button')).toEqual(['▾ Profile']);
    show({ row: row({ profiles: true }) });
    doing(() => button('Profile for 5 s').click());
    expect(host.act).toHaveBeenCalledWith(expect.objectContaining({ key: 'mnist-4' }), 'profile');
    show({ row: row({ profiles: true }) }, { profiles: [profile('1', { whole: false })] });
    expect(texts('[data-section=profile] p')).toEqual(['Profiling the ranks…']);
    expect(button('Profile for 5 s').getAttribute('aria-disabled')).toBe('true');
  });

  it('shows ranks, operations and memory, and saves a trace', async () => {
    answer = () => Promise.resolve(summary('2'));
    show({ row: ended({ profiles: true }) }, { profiles: [profile('1'), profile('2')] });
    await settle();
    expect(asked.at(-1)).toBe('jobs/mnist-4/profiles/2');
    expect(texts('[data-section=profile] p')).toEqual(['A CPU can not tell.', 'Open in XProf']);
    doing(() => button('Open in XProf').click());
    expect(openXprof).toHaveBeenCalledWith('mnist-4', '2');
    const lines = all('[data-section=profile] tbody tr').map(line =>
      [...line.children].map(({ textContent }) => textContent)
    );
    expect(lines).toEqual([
      ['0', '5.0 s', '2', '80 %', '20 %', '25 %', 'Open in Perfetto'],
      ['1', 'the rank ended', ''],
      [EVIL, 'jit_f', '2000.0 ms', '25 %', '2000.0 ms, rank 0'],
      ['0', EVIL, 'cpu:0', '2 MB']
    ]);
    doing(() => button('Open in Perfetto').click());
    expect(saveTrace).toHaveBeenCalledWith('mnist-4', '2', 0);
    answer = () => Promise.reject(new Error('It is gone.'));
    const select = find('[data-section=profile] select') as HTMLSelectElement;
    doing(() => {
      select.value = '1';
      select.dispatchEvent(new Event('change', { bubbles: true }));
    });
    await settle();
    expect(asked.at(-1)).toBe('jobs/mnist-4/profiles/1');
    expect(root.textContent).toContain('It is gone.');
  });

  it('says how to get XProf where it is not', async () => {
    answer = () => Promise.resolve({ ...summary('1'), xprof: false });
    show({ row: ended() }, { profiles: [profile('1')] });
    await settle();
    expect(texts('[data-section=profile] p code')).toEqual(['pip install xprof']);
    expect(texts('[data-section=profile] button')).not.toContain('Open in XProf');
  });

  it("withholds somebody else's", () => {
    const before = asked.length;
    show({ row: ended({ trust: 'foreign' }) }, { profiles: [profile('1')] });
    expect(texts('[data-section=profile] p')).toEqual(['withheld: submitted by somebody else']);
    expect(asked).toHaveLength(before);
  });
});
