import { describe, expect, it } from 'vitest';

import { clock, duration, fraction, progress, sanitize, span } from '../../src/core/base/format';
import type { State } from '../../src/core/base/protocol';
import { group, stateLabel } from '../../src/core/base/states';
import { english } from '../../src/core/base/translator';
import { branchesOf, countBranches } from '../../src/core/jobs/branches';
import { filterBranches, NO_FILTER } from '../../src/core/jobs/filter';
import { ended, row } from '../fakes/make';

const REPORT = { step: 1240, total: 2000, fraction: 0.62, metrics: {}, time: 0 };

describe('text', () => {
  it('gives a time of today by the clock, and another with its day, in 24 hours', () => {
    const old = new Date(2026, 0, 15, 22, 1, 5);
    expect(clock(old.getTime() / 1000)).toBe(old.toLocaleString([], { hourCycle: 'h23' }));
    expect(clock(Date.now() / 1000)).toMatch(/^\d{1,2}:\d\d:\d\d$/);
  });

  it.each([
    [-5, '0 s'],
    [12.9, '12 s'],
    [60, '1 m'],
    [3599, '59 m'],
    [3600, '1 h'],
    [86_400 * 3, '3 d']
  ])('gives %d s with its largest unit', (seconds, text) => {
    expect(span(seconds, english)).toBe(text);
  });

  it.each([
    [0, '0 s'],
    [59, '59 s'],
    [60, '1 m'],
    [134, '2 m 14 s'],
    [3630, '1 h'],
    [5405, '1 h 30 m'],
    [86_400 + 7200, '1 d 2 h']
  ])('gives %d s with two units', (seconds, text) => {
    expect(duration(seconds, english)).toBe(text);
  });

  it('takes out what would change how other text is read', () => {
    expect(sanitize('a\u202eb\x1b[31mc\x00\n\td')).toBe('ab[31mc\n\td');
  });

  it('says how far a job is', () => {
    expect(progress(row(), english)).toBe('');
    expect(progress(row({ progress: REPORT }), english)).toBe('62 %');
    expect(progress(row({ progress: { ...REPORT, fraction: null } }), english)).toBe('step 1240');
  });

  it('keeps parts within their bounds', () => {
    expect(fraction({ ...REPORT, fraction: 1.4 })).toBe(1);
    expect(fraction({ ...REPORT, fraction: -1 })).toBe(0);
    expect(fraction({ ...REPORT, fraction: NaN })).toBeNull();
  });

  it('fills in values, once', () => {
    expect(english.__('%1 of %2', '%2', 5)).toBe('%2 of 5');
    expect(english._n('%1 job', '%1 jobs', 1)).toBe('1 job');
    expect(english._n('%1 job', '%1 jobs', 0)).toBe('0 jobs');
  });
});

describe('states', () => {
  it('has a word and a group for each, and takes one that it does not know for waiting', () => {
    expect(group('Suspended')).toBe('waiting');
    expect(group('Succeeded')).toBe('done');
    expect(group('damaged')).toBe('failed');
    expect(group('Resting' as State)).toBe('waiting');
    expect(stateLabel('Resting' as State, english)).toBe('Resting');
  });

  it('are counted by group', () => {
    const rows = [row(), row({ state: 'Pending' }), row({ state: 'Queued' }), ended()];
    expect(countBranches(branchesOf(rows))).toEqual({
      waiting: 2,
      running: 1,
      failed: 0,
      done: 1,
      cancelled: 0
    });
  });
});

describe('the filter', () => {
  const rows = [
    row({ key: 'mnist-4' }),
    row({ key: 'llm', state: 'Pending', reason: 'no node has 8 GPU free', place: 'team-a · gke' }),
    ended({ key: 'sweep', state: 'Failed', reason: "rank 2: KeyError 'labels'" })
  ];
  const branches = branchesOf(rows);
  const keys = (text: string, ...groups: ('failed' | 'waiting')[]) =>
    filterBranches(branches, { text, groups: new Set(groups) }, english).map(
      ({ row: { key } }) => key
    );

  it('lets all through when it is empty, as the same list', () => {
    expect(filterBranches(branches, NO_FILTER, english)).toBe(branches);
  });

  it('wants every word, in whatever case, wherever it stands', () => {
    expect(keys('keyerror')).toEqual(['sweep']);
    expect(keys(' GPU  gke ')).toEqual(['llm']);
    expect(keys('gpu labels')).toEqual([]);
    expect(keys('failed')).toEqual(['sweep']);
  });

  it('wants one of the groups', () => {
    expect(keys('', 'failed', 'waiting')).toEqual(['llm', 'sweep']);
    expect(keys('llm', 'failed')).toEqual([]);
  });
});
