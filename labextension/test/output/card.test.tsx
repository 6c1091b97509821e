import { render } from 'preact';
import { act } from 'preact/test-utils';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { JobSummary } from '../../src/core/base/protocol';
import { english } from '../../src/core/base/translator';
import { JobCard } from '../../src/core/output/card';
import { pathOf } from '../../src/core/output/sparkline';
import { cell, ended, NOW } from '../fakes/make';
import { progress, summary } from '../fakes/summary';

let root: HTMLElement;
const host = { trans: english, act: vi.fn(), copy: vi.fn(), open: vi.fn(), prolong: vi.fn() };

beforeEach(() => {
  vi.useFakeTimers({ now: NOW * 1000 });
  vi.clearAllMocks();
  root = document.body.appendChild(document.createElement('div'));
});

afterEach(() => {
  void act(() => render(null, root));
  root.remove();
  vi.useRealTimers();
});

function show(
  shown: JobSummary,
  more: { printed?: boolean; saved?: boolean; notice?: string; open?: boolean } = {}
) {
  const { open = true, ...props } = more;
  const { trans, act: does, copy } = host;
  void act(() => {
    render(
      <JobCard summary={shown} host={open ? host : { trans, act: does, copy }} {...props} />,
      root
    );
  });
}

const pass = (time: number) =>
  void act(() => {
    vi.advanceTimersByTime(time);
  });
const find = (selector: string) => root.querySelector<HTMLElement>(selector);
const text = (selector: string) => find(selector)?.textContent ?? '';
const buttons = () =>
  [...root.querySelectorAll('.jaxtrain-job-summary-buttons button')].map(each => each.textContent);
const press = (name: string) => {
  const found = [...root.querySelectorAll('button')].find(
    each => each.textContent === name || each.getAttribute('aria-label') === name
  );
  void act(() => found?.click());
};

describe('a job in short', () => {
  it('says name, state, shape and how long it takes, and goes on saying it', () => {
    show(summary());
    expect(find('[role=group]')?.getAttribute('aria-label')).toBe('Training job mnist-4');
    expect(text('.jaxtrain-name')).toBe('mnist-4');
    expect(text('.jaxtrain-state')).toBe('Running');
    expect(text('.jaxtrain-job-summary-facts')).toBe('4 nodes × 2 CPU devices · 2 m 10 s');
    pass(5000);
    expect(text('.jaxtrain-job-summary-facts')).toBe('4 nodes × 2 CPU devices · 2 m 15 s');
  });

  it('says that its session ends soon, which a click prolongs', () => {
    show(summary(cell(1)));
    expect(buttons()).toEqual(['Open']);
    show(summary(cell(1), { idle_ends: NOW + 240 }));
    expect(text('.jaxtrain-job-summary-facts')).toContain('session lab ends in 4 m');
    pass(60_000);
    expect(text('.jaxtrain-job-summary-facts')).toContain('ends in 3 m');
    press('Prolong');
    expect(host.prolong).toHaveBeenCalledOnce();
  });

  it('of a session leads to it, where there is a place for that', () => {
    show(summary(cell(1)));
    expect(text('.jaxtrain-job-summary-facts')).toContain('session lab · 4 nodes');
    press('session lab');
    expect(host.open).toHaveBeenLastCalledWith({ key: 'lab', name: 'lab' });
    press('Open');
    expect(host.open.mock.lastCall?.[0]).toMatchObject({ key: 'lab-cell-1' });
    show(summary(cell(1)), { open: false });
    expect(text('.jaxtrain-job-summary-facts')).toContain('session lab · 4 nodes');
    expect(find('.jaxtrain-link')).toBeNull();
  });

  it('stops the clock when the job has ended', () => {
    show(summary({ ...ended() }));
    pass(50_000);
    expect(text('.jaxtrain-job-summary-facts')).toContain('2 m 10 s');
    expect(find('[role=progressbar]')).toBeNull();
    expect(root.textContent).not.toContain('Keeps running');
  });

  it('says how far it is, and the metric of the line by the line', () => {
    const spark: JobSummary['spark'] = {
      name: 'loss',
      points: [
        [0, 2],
        [10, 'NaN'],
        [20, 0.5]
      ]
    };
    show(summary({ progress: progress(1240) }, { spark }));
    expect(find('[role=progressbar]')?.getAttribute('aria-valuenow')).toBe('62');
    expect(text('.jaxtrain-job-summary-numbers')).toBe('62 %1240/2000acc 0.97');
    expect(text('.jaxtrain-spark > span')).toBe('loss 0.5');
    const said = 'loss is 0.5 at step 20 (min 0.5, max 2)';
    expect(find('svg[role=img]')?.getAttribute('aria-label')).toBe(said);
    expect(text('svg title')).toBe(said);
  });

  it('says why it waits and what to do, with code as code', () => {
    show(
      summary({ state: 'Pending', reason: 'no node is free', hint: 'See `kubectl get nodes`.' })
    );
    expect(text('.jaxtrain-job-summary-middle')).toBe('no node is free');
    expect(text('.jaxtrain-place .jaxtrain-job-summary-why')).toBe('See kubectl get nodes.');
    expect(text('.jaxtrain-job-summary-why code')).toBe('kubectl get nodes');
  });

  it('says how to see more of a job that reports nothing', () => {
    show(summary());
    expect(text('.jaxtrain-job-summary-middle')).toContain('Call report() in the code');
    show(summary({ progress: progress(10) }));
    expect(root.textContent).not.toContain('Call report()');
  });

  it('has a line for what the ranks use, also while nothing is known', () => {
    show(summary());
    expect(text('.jaxtrain-pulse')).toBe('\u00a0');
    show({ ...summary(), pulse: 'CPU 3.9 cores' });
    expect(text('.jaxtrain-pulse')).toBe('CPU 3.9 cores');
    show({ ...summary(ended()), pulse: '' });
    expect(root.querySelectorAll('.jaxtrain-pulse')).toHaveLength(1); // what stands below stays where it is
  });

  it('says what else there is to know', () => {
    show({ ...summary(), remarks: ['loss was NaN at step 3 (rank 0)', 'saved 3 s'] });
    expect(text('footer')).toContain('loss was NaN at step 3 (rank 0)');
    expect(text('footer')).toContain('saved 3 s');
  });

  it('says why it failed beside how far it came', () => {
    show(summary({ progress: progress(1240) }));
    const failed = { state: 'Failed', reason: 'rank 1 failed', hint: 'See its log.' } as const;
    show(summary({ ...ended(failed), progress: progress(1240) }));
    expect(text('.jaxtrain-job-summary-middle')).toContain('1240/2000');
    expect(text('.jaxtrain-place .jaxtrain-job-summary-why')).toBe('rank 1 failedSee its log.');
    expect(text('[data-bad=true]')).toBe('rank 1 failed');
  });

  it('tells a state once, and nothing else, to those who listen', () => {
    show(summary());
    const changed = vi.fn();
    const observer = new MutationObserver(changed);
    const status = find('[role=status].jaxtrain-unseen');
    if (status) {
      observer.observe(status, { subtree: true, characterData: true, childList: true });
    }
    show(summary({ progress: progress(10) }));
    pass(2000);
    expect(observer.takeRecords()).toEqual([]);
    show(summary({ ...ended() }));
    expect(status?.textContent).toBe('mnist-4: Succeeded');
  });
});

describe('the last lines', () => {
  const tail: JobSummary['tail'] = [
    [0, NOW, '\x1b[31mstep\x1b[0m 1 \x1b]52;c;AAAA\x07'],
    ['dataset-initializer', null, '<img src=x onerror="hack()">\u202e']
  ];

  it('have the rank, its colour and their own, and are text', () => {
    show(summary({}, { tail }));
    const rows = [...root.querySelectorAll('.jaxtrain-tail > div:not([aria-hidden])')];
    expect(rows[0]?.textContent).toContain('step 1 ');
    expect(rows[0]?.textContent).not.toContain('AAAA');
    expect(rows[0]?.querySelector('.jaxtrain-rank')?.getAttribute('data-colour')).toBe('0');
    expect(rows[0]?.querySelector('.jaxtrain-ansi-red')?.textContent).toBe('step');
    expect(rows[1]?.textContent).toContain('<img src=x onerror="hack()">');
    expect(root.querySelector('img')).toBeNull();
    expect(root.textContent).not.toContain('\u202e');
  });

  it('have their place while the job runs, and keep it when it ends', () => {
    show(summary());
    expect(text('.jaxtrain-tail')).toBe('No output yet');
    show(summary({}, { tail }));
    expect(text('.jaxtrain-tail')).toContain('step 1');
    show(summary({ ...ended() }, { tail }));
    expect(find('.jaxtrain-tail')).not.toBeNull();
    expect(find('[data-held=true]')).not.toBeNull();
  });

  it('are not said twice: the cell prints those of rank 0, and why the job failed', () => {
    show(summary({}, { tail: [[0, NOW, 'step 1']] }), { printed: true });
    expect(find('.jaxtrain-tail')).toBeNull();
    show(summary({}, { tail }), { printed: true });
    expect(text('.jaxtrain-tail')).toContain('<img src=x');
    expect(text('.jaxtrain-tail')).not.toContain('step 1');
    const reason = 'rank 1 failed first: ValueError: boom';
    show(summary(ended({ state: 'Failed', reason }), { tail }), { printed: true });
    expect(root.textContent).not.toContain('boom');
    show(summary(ended({ state: 'Failed', reason }), { tail }));
    expect(root.textContent).toContain('boom');
  });

  it('have no place to keep where only the notebook says that the job runs', () => {
    show(summary({}, { tail }), { printed: true, saved: true });
    expect(find('.jaxtrain-tail')).not.toBeNull();
    show(summary({ ...ended() }, { tail }), { printed: true });
    expect(find('.jaxtrain-tail')).toBeNull();
    expect(find('[data-held=true]')).toBeNull();
  });

  it('are left out of a job that has ended where the cell has printed them', () => {
    show(summary({ ...ended() }, { tail }), { printed: true });
    expect(find('.jaxtrain-tail')).toBeNull();
    show(summary({ ...ended() }, { tail }));
    expect(find('.jaxtrain-tail')).not.toBeNull();
  });
});

describe('what can be done', () => {
  it('is what the server allows; to detach only where a cell waits; never to delete', () => {
    show(summary({ actions: ['delete', 'cancel', 'suspend'] }));
    expect(buttons()).toEqual(['Suspend', 'Cancel', 'Open']);
    show(summary({ actions: ['cancel'] }, { awaited: true }));
    expect(buttons()).toEqual(['Detach', 'Cancel', 'Open']);
    press('Detach');
    expect(host.act).toHaveBeenCalledWith('detach');
    press('Open');
    expect(host.open).toHaveBeenCalled();
    show(summary({ ...ended() }, { awaited: true }), { open: false });
    expect(buttons()).toEqual([]);
  });

  it('copies the name as it is', () => {
    show(summary());
    press('Copy name');
    expect(host.copy).toHaveBeenCalledWith('mnist-4');
  });
});

describe('the foot', () => {
  it('says how to come back, or what is more pressing, in the same place', () => {
    show(summary());
    expect(text('footer code')).toBe('%jaxtrain attach mnist-4');
    expect(text('footer')).toContain('sent x float32[60000,784] 188 MB');
    show(summary(), { notice: 'No connection.' });
    expect(text('footer > p:last-child')).toBe('No connection.');
    show(summary({}, { note: 'interrupt again within 3 s to cancel' }), {
      notice: 'No connection.'
    });
    expect(text('footer > [role=status]')).toBe('interrupt again within 3 s to cancel');
    show(summary({ ...ended() }, { sent: '', results: 'params dict of 4 1.2 MB' }));
    expect(text('footer').trim()).toBe('brought back params dict of 4 1.2 MB');
  });
});

describe('the time that is left', () => {
  it('is said beside how long it has taken', () => {
    show(summary({ progress: progress(1000, NOW - 20) }));
    show(summary({ progress: progress(1500, NOW) }));
    expect(text('.jaxtrain-job-summary-facts')).toContain('2 m 10 s · about 20 s left');
  });
});

it('draws a line over the whole width, with gaps, and a single point as a line', () => {
  expect(pathOf({ xs: [0, 5, 10], ys: [1, 0, 1] }, 0, 1)).toBe('M0 2L60 20L120 2');
  expect(pathOf({ xs: [0, 5, 10], ys: [1, NaN, 1] }, 0, 1)).toBe('M0 2M120 2');
  expect(pathOf({ xs: [7], ys: [3] }, 3, 3)).toBe('M0 11h120');
});
