import { describe, expect, it } from 'vitest';

import { standing } from '../../src/core/base/session';
import { english } from '../../src/core/base/translator';
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
import { cell, changed, ended, NOW, row, session } from '../fakes/make';

usePanel();

const EVIL = '<img src=x onerror="window.hacked = 1">';
const cells = (count: number) => Array.from({ length: count }, (_, n) => cell(n + 1)).reverse();

describe('the sessions in the list', () => {
  it('are on top, with their cells below, and count as one job', () => {
    show(
      row({ key: 'new', created: NOW }),
      ...cells(2),
      session(),
      ended({ key: 'old', created: 1 })
    );
    expect(keys()).toEqual(['lab', 'lab-cell-2', 'lab-cell-1', 'new', 'old']);
    expect(rowsShown().map(each => each.getAttribute('aria-level'))).toEqual([
      ...['1', '2', '2', '1', '1']
    ]);
    expect(find('.jaxtrain-head').textContent).toBe('Jobs3 jobs · 2 running');
    expect(find('[data-key=lab]').getAttribute('aria-label')).toBe(
      'lab, session, Running, 2 nodes'
    );
  });

  it('that have ended are in their place, folded', () => {
    const over = session({ state: 'Succeeded', active: false, ended: NOW, actions: ['delete'] });
    show(row({ key: 'new', created: NOW }), ...cells(2), over);
    expect(keys()).toEqual(['new', 'lab']);
    expect(find('[data-key=lab]').getAttribute('aria-expanded')).toBe('false');
  });

  it('have cells that stand by themselves once the session is deleted', () => {
    show(cell(1), session({ uid: 'another' }));
    expect(keys()).toEqual(['lab', 'lab-cell-1']);
    expect(find('[data-key=lab-cell-1]').getAttribute('aria-level')).toBe('1');
    expect(find('[data-key=lab]').hasAttribute('aria-expanded')).toBe(false);
  });

  it('show some cells, and all of them on demand, without losing the focus', () => {
    show(...cells(8), session());
    expect(keys()).toHaveLength(1 + 5 + 1);
    const rest = rowsShown().at(-1);
    expect(rest?.textContent).toBe('Show 3 earlier cells');
    doing(() => rest?.focus());
    press('Enter');
    expect(keys()).toHaveLength(1 + 8);
    expect(document.activeElement).toBe(find('[data-key=lab-cell-3]'));
    expect(host.open).not.toHaveBeenCalled();
  });

  it('are folded by the mouse and by the keyboard, which is remembered', () => {
    const kept = new Map<string, string>();
    Object.assign(host, {
      setItem: (name: string, text: string) => kept.set(name, text),
      getItem: (name: string) => kept.get(name) ?? null
    });
    show(...cells(2), session());
    click('.jaxtrain-row-fold');
    expect(keys()).toEqual(['lab']);
    expect(host.open).not.toHaveBeenCalled();
    again();
    expect(keys()).toEqual(['lab']);
    press('ArrowDown', find('input'));
    press('ArrowRight');
    expect(keys()).toHaveLength(3);
    press('ArrowRight');
    expect(document.activeElement?.className).toBe('jaxtrain-more');
    press('ArrowLeft');
    press('ArrowDown');
    expect(document.activeElement).toBe(find('[data-key=lab-cell-2]'));
    press('Enter');
    expect(host.open.mock.lastCall?.[0].key).toBe('lab-cell-2');
    press('ArrowLeft');
    expect(document.activeElement).toBe(find('[data-key=lab]'));
    press('ArrowLeft');
    expect(keys()).toEqual(['lab']);
  });

  it('are found by their cells, too', () => {
    const failed = cell(1, { state: 'Failed', reason: 'rank 0: KeyError' });
    show(cell(2), failed, session(), ended({ key: 'old', created: 1 }));
    click('.jaxtrain-row-fold');
    const chips = [...root.querySelectorAll('.jaxtrain-chip')].map(each => each.textContent);
    expect(chips).toEqual(['Waiting 0', 'Running 1', 'Failed 1', 'Succeeded 2', 'Cancelled 0']);
    click('.jaxtrain-chip[data-group=failed]');
    expect(keys()).toEqual(['lab', 'lab-cell-1']);
    expect(find('[data-key=lab-cell-1]').textContent).toContain('Failed · rank 0: KeyError');
    click('.jaxtrain-chip[data-group=failed]');
    expect(keys()).toEqual(['lab', 'old']);
    type('lab-cell-2');
    expect(keys()).toEqual(['lab', 'lab-cell-2']);
  });

  it('say what they do, and offer what the server allows', () => {
    const state = { idle_since: null, idle_ends: null, running: EVIL, waiting: 2 };
    const actions = ['cancel', 'restart', 'interrupt', 'delete'] as const;
    show(session({ session: state, actions: [...actions] }));
    expect(find('.jaxtrain-reason').textContent).toBe(`runs ${EVIL} · 2 cells wait`);
    click('.jaxtrain-more');
    const items = host.menu.mock.lastCall?.[0] ?? [];
    expect(items.slice(-4).map(({ label }) => label)).toEqual([
      ...['End…', 'Restart…', 'Interrupt', 'Delete…']
    ]);
    say(id => changed(id, [session()]));
    expect(find('.jaxtrain-reason').textContent).toBe('idle for 1 m · ends in 28 m');
  });
});

describe('what a session does', () => {
  const at = (seconds: number, idle: number | null = 1800) => {
    const ends = idle && NOW + idle;
    const state = { idle_since: NOW, idle_ends: ends, running: null, waiting: 0 };
    return standing(session({ session: state }), NOW + seconds, english);
  };

  it('counts down to its end', () => {
    expect(at(60)).toBe('idle for 1 m · ends in 29 m');
    expect(at(1770)).toBe('idle for 29 m · ends in 30 s');
    expect(at(1900)).toBe('idle for 31 m · ends now');
    expect(at(60, null)).toBe('idle for 1 m · does not end by itself');
  });

  it('is said only while its ranks run, and why it has ended then', () => {
    const over = session({ state: 'Succeeded', active: false, reason: 'idle for 30 m' });
    expect(standing(over, NOW, english)).toBe('idle for 30 m');
    expect(standing(session({ state: 'Queued' }), NOW, english)).toBe('');
    expect(standing(row(), NOW, english)).toBe('');
  });
});

it('shows no text of a job as HTML', () => {
  show(cell(1, { name: EVIL, state: 'Failed', reason: EVIL }), session({ name: EVIL }));
  expect(root.querySelector('img')).toBeNull();
});
