import { beforeEach, describe, expect, it, vi } from 'vitest';

import {
  again,
  click,
  doing,
  find,
  host,
  keys,
  press,
  root,
  rowsShown,
  say,
  show,
  type,
  usePanel
} from '../fakes/jobspage';
import { changed, ended, NOW, row } from '../fakes/make';

usePanel();

describe('a row', () => {
  it('says the state in words, how far it is, and how old', () => {
    const progress = { step: 1240, total: 2000, fraction: 0.629, metrics: {}, time: NOW };
    show(row({ progress }));
    const [element] = rowsShown();
    expect(element?.getAttribute('aria-label')).toBe('mnist-4, Running, 4 nodes, 62 %');
    expect(element?.textContent).toContain('Running4 nodes62 %');
    expect(find('.jaxtrain-age').textContent).toBe('2 m');
    expect(find('[role=progressbar]').getAttribute('aria-valuenow')).toBe('62');
    expect(find('[role=progressbar] > div').style.width).toBe('62%');
  });

  it('says why a job waits, goes on or failed, and nothing about one that went well', () => {
    show(
      row({ key: 'r', reason: 'restart 1 of 2 goes on at step 7' }),
      row({ key: 'w', state: 'Pending', reason: 'no node has 8 GPU free', nodes: 1 }),
      ended({ key: 'f', state: 'Failed', reason: "rank 2: KeyError 'labels'" }),
      ended({ key: 's', reason: 'all ranks returned' })
    );
    const reasons = rowsShown().map(each => each.querySelector('.jaxtrain-reason')?.textContent);
    expect(reasons.filter(Boolean)).toHaveLength(3);
    expect(root.textContent).toContain('no node has 8 GPU free');
    expect(root.textContent).toContain('1 node');
    expect(root.textContent).not.toContain('all ranks returned');
    expect(root.querySelector('[role=progressbar]')).toBeNull();
  });

  it('says what was reported last in the line of the reason, which is always there', () => {
    const metrics = { loss: 0.03125, '<b>': 2 };
    show(
      ended({ progress: { step: 9, total: 10, fraction: 1, metrics, time: NOW } }),
      row({ key: 'r' })
    );
    const lines = rowsShown().map(each => each.querySelector('.jaxtrain-reason')?.textContent);
    expect(lines).toEqual(['loss 0.03125 · <b> 2', '']);
  });

  it('is there for a job whose files cannot be read, too', () => {
    const reason = 'it is damaged: manifest.json';
    show(ended({ uid: null, state: 'damaged', reason, created: 0, ended: null, nodes: 0 }));
    expect(rowsShown()[0]?.getAttribute('aria-label')).toBe(`mnist-4, Damaged, ${reason}`);
    expect(root.querySelector('.jaxtrain-age')).toBeNull();
  });

  it('takes hostile text for text', () => {
    const evil = '<img src=x onerror="window.hacked = 1"><b>x</b>\u202e';
    show(ended({ name: evil, state: 'Failed', reason: evil, hint: evil, shape: evil }));
    expect(root.querySelector('img, .jaxtrain-row b')).toBeNull();
    expect(find('.jaxtrain-name').textContent).toBe(evil.slice(0, -1));
    expect(find('.jaxtrain-reason').textContent).toBe(evil.slice(0, -1));
  });

  it('grows older by the one timer, without being made anew', () => {
    show(row({ created: NOW - 58 }));
    const [element] = rowsShown();
    expect(vi.getTimerCount()).toBe(2); // this one, and the one that sees sleeps
    doing(() => vi.advanceTimersByTime(3000));
    expect(find('.jaxtrain-age').textContent).toBe('1 m');
    expect(rowsShown()[0]).toBe(element);
  });

  it('is not touched when another one changes', () => {
    show(row({ key: 'a', created: 2 }), row({ key: 'b', created: 1 }));
    const [first] = rowsShown();
    const changes = vi.fn();
    const observer = new MutationObserver(changes);
    if (first) {
      observer.observe(first, { subtree: true, childList: true, attributes: true });
    }
    say(id => changed(id, [row({ key: 'b', created: 1, state: 'Suspended' })]));
    expect(observer.takeRecords()).toEqual([]);
    expect(changes).not.toHaveBeenCalled();
    expect(rowsShown()[1]?.textContent).toContain('Suspended');
  });
});

describe('the filter', () => {
  beforeEach(() => {
    show(
      row({ key: 'mnist', created: 3 }),
      row({ key: 'llm', created: 2, state: 'Pending' }),
      ended({ key: 'sweep', created: 1, state: 'Failed' })
    );
  });

  it('works by words, and says how many are left', () => {
    type('sweep');
    expect(keys()).toEqual(['sweep']);
    expect(find('.jaxtrain-head').textContent).toContain('1 of 3');
    press('Escape', find('input'));
    expect(keys()).toHaveLength(3);
  });

  it('works by states, of which all are offered at any time', () => {
    const chips = [...root.querySelectorAll('.jaxtrain-chip')].map(each => each.textContent);
    expect(chips).toEqual(['Waiting 1', 'Running 1', 'Failed 1', 'Succeeded 0', 'Cancelled 0']);
    click('.jaxtrain-chip[data-group=failed]');
    expect(keys()).toEqual(['sweep']);
    expect(find('.jaxtrain-chip[data-group=failed]').getAttribute('aria-pressed')).toBe('true');
    click('.jaxtrain-chip[data-group=running]');
    expect(keys()).toEqual(['mnist', 'sweep']);
  });

  it('offers the way back when nothing matches', () => {
    type('nothing like it');
    expect(root.textContent).toContain('No matching jobs');
    click('.jaxtrain-note button');
    expect(keys()).toHaveLength(3);
  });
});

describe('the keyboard and the menu', () => {
  beforeEach(() => {
    show(
      row({ key: 'a', created: 3, actions: ['cancel', 'suspend'] }),
      ended({ key: 'b', created: 2 }),
      ended({ key: 'c', created: 1 })
    );
  });

  const stops = () => rowsShown().map(element => element.tabIndex);

  it('has one Tab stop, which the arrows move', () => {
    expect(stops()).toEqual([0, -1, -1]);
    press('ArrowDown', find('input'));
    press('ArrowDown');
    expect(document.activeElement).toBe(rowsShown()[1]);
    expect(stops()).toEqual([-1, 0, -1]);
    press('End');
    press('ArrowDown');
    expect(stops()).toEqual([-1, -1, 0]);
    press('Home');
    expect(stops()).toEqual([0, -1, -1]);
  });

  it('opens by Enter, by a click, and asks by Delete for what can be done', () => {
    press('ArrowDown', find('input'));
    press('Enter');
    expect(host.open.mock.lastCall?.[0].key).toBe('a');
    press('Delete');
    expect(host.act.mock.lastCall?.[1]).toBe('cancel');
    press('ArrowDown');
    press('Delete');
    expect(host.act.mock.lastCall?.[0].key).toBe('b');
    expect(host.act.mock.lastCall?.[1]).toBe('delete');
    click('[data-key=c] .jaxtrain-name');
    expect(host.open.mock.lastCall?.[0].key).toBe('c');
  });

  it('offers in the menu what the server allows, and no more', () => {
    click('[data-key=a] button');
    expect(host.open).not.toHaveBeenCalled();
    const items = host.menu.mock.lastCall?.[0] ?? [];
    expect(items.map(({ label }) => label)).toEqual([
      'Open',
      'Copy Name',
      '',
      'Cancel…',
      'Suspend'
    ]);
    items[1]?.run?.();
    expect(host.copy).toHaveBeenCalledWith('a');
    items[4]?.run?.();
    expect(host.act.mock.lastCall?.[1]).toBe('suspend');
  });

  it('stays on its job when others come, and goes to a neighbour when it is deleted', () => {
    press('ArrowDown', find('input'));
    press('ArrowDown');
    say(id => changed(id, [row({ key: 'new', created: 9 })]));
    expect(document.activeElement).toBe(find('[data-key=b]'));
    expect(find('[data-key=b]').tabIndex).toBe(0);
    say(id => changed(id, [], ['b']));
    expect(stops().filter(stop => stop === 0)).toHaveLength(1);
    expect(document.activeElement).toBe(find('[data-key=c]'));
  });
});

it('makes a page of rows at once, the rest on demand, and a page again for another filter', () => {
  show(...Array.from({ length: 120 }, (_, n) => row({ key: `job-${n}`, created: n })));
  expect(rowsShown()).toHaveLength(100);
  expect(find('[role=treegrid]').getAttribute('aria-rowcount')).toBe('120');
  expect(find('.jaxtrain-jobs > .jaxtrain-button').textContent).toBe('Show 20 more jobs');
  click('.jaxtrain-jobs > .jaxtrain-button');
  expect(rowsShown()).toHaveLength(120);
  type('job');
  expect(rowsShown()).toHaveLength(100);
});

describe('the filter', () => {
  it('is there again the next time', () => {
    const kept = new Map<string, string>();
    Object.assign(host, {
      setItem: (name: string, text: string) => kept.set(name, text),
      getItem: (name: string) => kept.get(name) ?? null
    });
    show(row(), ended({ key: 'sweep', state: 'Failed' }), ended({ key: 'other', state: 'Failed' }));
    type('sw');
    click('[data-group=failed].jaxtrain-chip');
    expect(keys()).toEqual(['sweep']);
    again();
    expect(keys()).toEqual(['sweep']);
    expect(find('[data-group=failed].jaxtrain-chip').getAttribute('aria-pressed')).toBe('true');
    type('');
    click('[data-group=failed].jaxtrain-chip');
    again();
    expect(keys()).toHaveLength(3);
  });
});
