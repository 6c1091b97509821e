import { act } from 'preact/test-utils';
import { beforeEach, describe, expect, it, vi } from 'vitest';

import { confirmationFor } from '../../src/core/base/actions';
import type { SessionDetail, SessionLook, ShownVariable } from '../../src/core/base/protocol';
import { clock } from '../../src/core/base/format';
import { english } from '../../src/core/base/translator';
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
import { cell, NOW, row, session } from '../fakes/make';

const EVIL = '<img src=x onerror="window.hacked = 1">';

const openLog = vi.fn<(key: string, rank: number) => void>();
const kept = new Map<string, string>();
const get = vi.fn<(path: string) => Promise<SessionLook>>();

useJob(() => ({
  openLog,
  get: <T,>(path: string) => get(path) as Promise<T>,
  setItem: (name, value) => void kept.set(name, value),
  getItem: name => kept.get(name) ?? null
}));

function variable(name: string, change: Partial<ShownVariable> = {}): ShownVariable {
  return {
    ...{ name, kind: 'array', type: 'float32[4]', size: 16, sharding: 'P()', device_size: 16 },
    ...{ cell: 1, deleted: false, ranks: null, ...change }
  };
}

const VARIABLES = [
  variable('w', { size: 1_200_000_000, device_size: 300_000_000, cell: 2 }),
  variable('a', { kind: 'value', type: 'int', size: null, device_size: null, sharding: null }),
  variable('gone', { deleted: true, cell: 3 })
];

const WHOLE: SessionDetail = {
  waiting: [],
  variables: VARIABLES,
  restarts: 0,
  lost: [],
  saved: null
};

function showSession(change: Partial<SessionDetail> = {}, of = session()): void {
  const ranks = [0, 1].map(rank => ({ rank, state: 'Running', pid: 70 + rank, exit: null }));
  show({ row: of, session: { ...WHOLE, ...change } }, { ranks });
}

const column = (part: string, number: number) =>
  texts(`[data-section=${part}] tbody tr > :nth-child(${number})`);

beforeEach(() => {
  kept.clear();
  vi.clearAllMocks();
  get.mockResolvedValue({ session: WHOLE, memory: [220_000_000, null] });
});

describe('a session', () => {
  it('has cells and variables, and no code or metrics of its own', () => {
    showSession();
    expect(all('[data-section]').map(each => each.dataset['section'])).toEqual([
      ...['cells', 'variables', 'ranks', 'events', 'machine']
    ]);
    expect(texts('.jaxtrain-actions button')).toEqual([
      ...['Log', 'Copy name', 'Delete', 'End', 'Restart', 'Interrupt', 'Prolong'],
      ...['Save', 'Restore']
    ]);
    expect(button('Interrupt').getAttribute('aria-disabled')).toBe('true');
    doing(() => button('Interrupt').click());
    expect(host.act).not.toHaveBeenCalled();
    const running = { idle_since: null, idle_ends: null, running: 'lab-cell-1', waiting: 0 };
    showSession(
      {},
      session({ session: running, actions: ['cancel', 'restart', 'interrupt', 'delete'] })
    );
    expect(find('.jaxtrain-progress p').textContent).toBe('runs lab-cell-1');
    doing(() => button('Interrupt').click());
    expect(host.act.mock.lastCall?.[1]).toBe('interrupt');
  });

  it('saves and restores its variables, in pods where that stays', () => {
    showSession({ saved: { time: NOW - 60, names: ['w', EVIL] } });
    expect(find('[data-section=variables]').textContent).toContain(
      `Saved at ${clock(NOW - 60)}: w`
    );
    doing(() => button('Save').click());
    expect(host.act.mock.lastCall?.[1]).toBe('save');
    expect(confirmationFor(session(), 'restore', english)?.body).toContain('of the same names');
    showSession({}, session({ cluster: true, actions: ['cancel', 'restart', 'delete'] }));
    expect(texts('.jaxtrain-actions button')).not.toContain('Save');
  });

  it('asks before variables are lost, and not before an interrupt', () => {
    const asked = (action: 'cancel' | 'restart' | 'interrupt' | 'delete') =>
      confirmationFor(session(), action, english);
    expect(asked('cancel')?.title).toBe('End lab?');
    expect(asked('restart')?.body).toContain('variables are lost');
    expect(asked('interrupt')).toBeNull();
    expect(asked('delete')?.body).toContain('So are its cells');
    const running = cell(1, { state: 'Running', active: true });
    expect(confirmationFor(running, 'cancel', english)?.body).toContain('interrupted on all ranks');
    const waits = cell(1, { state: 'Queued', active: true });
    expect(confirmationFor(waits, 'cancel', english)?.body).toContain('queue of its session');
  });

  it('has variables that each column sorts, those without a value last', () => {
    showSession();
    const header = (name: string) => {
      const found = all('[data-section=variables] thead th').find(each =>
        each.textContent.startsWith(name)
      );
      return found as HTMLElement;
    };
    const sort = (name: string) => doing(() => header(name).querySelector('button')?.click());
    expect(column('variables', 1)).toEqual(['w', 'gone', 'a']);
    expect(header('Size').getAttribute('aria-sort')).toBe('descending');
    sort('Variable');
    expect(column('variables', 1)).toEqual(['a', 'gone', 'w']);
    expect(header('Variable').getAttribute('aria-sort')).toBe('ascending');
    sort('Size');
    sort('Size');
    expect(column('variables', 1)).toEqual(['gone', 'w', 'a']);
    sort('Cell');
    expect(column('variables', 6)).toEqual(['3', '2', '1']);
    expect(column('variables', 4)).toEqual(['16 B', '1.2 GB', '']);
    expect(column('variables', 5)).toEqual(['deleted', '300 MB', '']);
    expect(find('[data-section=variables] .jaxtrain-quiet').textContent).toBe(
      '3 variables · 1.2 GB · at most 300 MB per device'
    );
  });

  it('has variables as they are now on demand, until it says more itself', async () => {
    showSession();
    const now = { ...WHOLE, variables: [variable('b')] };
    get.mockResolvedValue({ session: now, memory: [] });
    doing(() => button('Refresh').click());
    await settle();
    expect(get).toHaveBeenLastCalledWith('jobs/lab/session');
    expect(column('variables', 1)).toEqual(['b']);
    showSession({ variables: [variable('c')] });
    expect(column('variables', 1)).toEqual(['c']);
    get.mockRejectedValue(new Error('The server is gone.'));
    doing(() => button('Refresh').click());
    await settle();
    expect(find('[data-section=variables] [role=status]').textContent).toContain('is gone');
  });

  it('says which ranks have a variable that not all have', () => {
    showSession({
      variables: [variable('x', { ranks: [0, 1, 3] }), variable('y', { ranks: [2] })]
    });
    expect(column('variables', 1)).toEqual(['x ranks 0, 1 and 3', 'y rank 2']);
  });

  it('says what a restart has cost', () => {
    showSession({ variables: [], lost: ['w', 'opt'], restarts: 1 });
    const text = find('[data-section=variables]').textContent;
    expect(text).toContain('Lost in the last restart: w, opt');
    expect(text).toContain('No variables yet');
  });

  it('shows the memory of its ranks while they run, and how they ended then', async () => {
    showSession();
    await settle();
    expect(texts('[data-section=ranks] thead th').at(-2)).toBe('Memory');
    expect(column('ranks', 6)).toEqual(['220 MB', '']);
    showSession({}, session({ state: 'Failed', active: false, ended: NOW, actions: ['delete'] }));
    expect(texts('[data-section=ranks] thead th').at(-2)).toBe('Exit');
  });

  it('opens its cells, by a click and by the keyboard', () => {
    showSession();
    const rows = [session(), cell(1), cell(2, { state: 'Failed', elapsed: 75 }), row()];
    say({ kind: 'jobs', all: true, rows }, 1);
    expect(column('cells', 1)).toEqual(['lab-cell-2', 'lab-cell-1']);
    expect(column('cells', 2)).toEqual([' Failed', ' Succeeded']);
    expect(column('cells', 3)).toEqual(['1 m 15 s', '0.3 s']);
    const [first, second] = all('[data-section=cells] tbody tr');
    expect([first?.tabIndex, second?.tabIndex]).toEqual([0, -1]);
    first?.focus();
    press('ArrowDown');
    press('Enter');
    expect(host.open.mock.lastCall?.[0].key).toBe('lab-cell-1');
    doing(() => first?.click());
    expect(host.open.mock.lastCall?.[0].key).toBe('lab-cell-2');
  });

  it('shows no text of its ranks as HTML', () => {
    showSession({ variables: [variable(EVIL, { type: EVIL, sharding: EVIL })], lost: [EVIL] });
    expect(root.querySelector('img')).toBeNull();
    expect(column('variables', 2)).toEqual([EVIL]);
  });
});

it('a cell leads to its session', () => {
  show({ row: cell(1) });
  void act(() => button('session lab').click());
  expect(host.open.mock.lastCall?.[0]).toEqual({ key: 'lab', name: 'lab' });
});
