import { vi } from 'vitest';

import type { Host } from '../../src/core/base/host';
import type { Detail, Message, Row } from '../../src/core/base/protocol';
import { english } from '../../src/core/base/translator';

export const NOW = Date.UTC(2026, 0, 15, 12, 0, 0) / 1000;

/** Return a row of a running job; `change` says what is different. */
export function row(change: Partial<Row> = {}): Row {
  const key = change.key ?? 'mnist-4';
  return {
    key,
    name: key,
    uid: `uid-${key}`,
    state: 'Running',
    reason: null,
    hint: null,
    active: true,
    created: NOW - 130,
    ended: null,
    elapsed: 130,
    nodes: 4,
    shape: '4 nodes × 2 CPU devices',
    backend: 'local',
    cluster: false,
    place: 'this machine',
    runtime: null,
    progress: null,
    notebook: null,
    cell: null,
    actions: ['cancel'],
    where: false,
    profiles: false,
    trust: 'own',
    maker: null,
    session: null,
    cell_of: null,
    ...change
  };
}

/** Return a row of a job that has ended. */
export function ended(change: Partial<Row> = {}): Row {
  const state = change.state ?? 'Succeeded';
  return row({ state, active: false, ended: NOW, actions: ['delete'], ...change });
}

/** Return a row of a session, which is idle. */
export function session(change: Partial<Row> = {}): Row {
  return row({
    key: 'lab',
    nodes: 2,
    shape: '2 nodes × 1 CPU device',
    actions: ['cancel', 'restart', 'prolong', 'save', 'restore', 'delete'],
    session: { idle_since: NOW - 90, idle_ends: NOW + 1710, running: null, waiting: 0 },
    ...change
  });
}

/** Return a row of a cell of that session, which has ended. */
export function cell(number: number, change: Partial<Row> = {}): Row {
  const key = `lab-cell-${number}`;
  const created = NOW - 100 + number;
  const cell_of = { key: 'lab', uid: 'uid-lab' };
  return ended({ key, created, ended: created + 0.25, elapsed: 0.25, cell_of, ...change });
}

export function detail(change: Partial<Detail> = {}): Detail {
  return {
    row: row(),
    spec: {},
    line: '%%jaxtrain mnist-4 -n 4',
    plan: {},
    sent: [],
    state: {
      state: 'Running',
      reason: null,
      hint: null,
      history: [
        { state: 'Queued', time: NOW - 130 },
        { state: 'Running', time: NOW - 127 }
      ],
      ranks: [],
      progress: null,
      failure: null,
      results: null
    },
    logs: [],
    code: 'print(1)\n',
    script: null,
    returns: false,
    session: null,
    spending: null,
    compile_cache: null,
    ...change
  };
}

export function all(id: number, rows: Row[]): Message {
  return { id, kind: 'jobs', all: true, rows };
}

export function changed(id: number, rows: Row[], gone: string[] = [], now = NOW): Message {
  return { id, kind: 'jobs', all: false, rows, gone, now };
}

export function fakeHost() {
  return {
    trans: english,
    open: vi.fn<Host['open']>(),
    act: vi.fn<Host['act']>(),
    copy: vi.fn<Host['copy']>(),
    menu: vi.fn<Host['menu']>()
  };
}
