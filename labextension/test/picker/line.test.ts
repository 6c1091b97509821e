import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { LineStore } from '../../src/core/picker/line';
import { FakeCell, setUp, type Setup } from '../fakes/picker';

const CELL = '%%jaxtrain --nodes=4 --odd=x\nprint(1)\n';

let setup: Setup;
let line: LineStore;

function begin(source: string | null): void {
  setup = setUp(source);
  line = setup.store.line;
}

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  setup.store.dispose();
  vi.useRealTimers();
});

const wait = (time = 150) => vi.advanceTimersByTimeAsync(time);

async function shown(source: string | null): Promise<void> {
  begin(source);
  line.shown = true;
  await wait(0);
}

const source = () => setup.cells.cell?.source;

describe('a cell with a line', () => {
  it('is shown as the server reads it', async () => {
    begin(CELL);
    expect(line.state).toBe('reading');
    line.shown = true;
    await wait(0);
    expect(line.state).toBe('synced');
    expect(line.line).toMatchObject({ line: '--nodes=4 --odd=x', ask: { nodes: 4 } });
    expect(line.values['nodes']).toBe(4);
    expect(setup.cells.cell?.writes).toBe(0);
  });

  it('gets a change, and only that one, after a pause', async () => {
    await shown(CELL);
    line.change({ nodes: '1' }, '1');
    await wait(100);
    line.change({ nodes: '16' }, '16');
    await wait(100);
    expect(line.state).toBe('writing');
    expect(setup.server.writes).toEqual([]);
    await wait();
    expect(setup.server.writes).toEqual([{ nodes: '16' }]);
    expect(source()).toBe('%%jaxtrain --nodes=16 --odd=x\nprint(1)\n');
    expect(line.state).toBe('synced');
    expect(setup.cells.cell?.writes).toBe(1);
    await wait(1000);
    expect(setup.server.asked).toHaveLength(2); // its own text is not read again
  });

  it('is read again when it is changed in the notebook', async () => {
    await shown(CELL);
    setup.cells.cell?.type('%%jaxtrain --nodes=2');
    expect(line.state).toBe('synced');
    await wait();
    expect(line.values).toEqual({ nodes: 2 });
    setup.cells.cell?.type('print(2)');
    await wait();
    expect(line.state).toBe('no-line');
  });

  it('takes the last answer, whatever the order in which they come', async () => {
    await shown(CELL);
    setup.server.hold = true;
    line.change({ nodes: '1' }, '1');
    await wait();
    line.change({ nodes: '12' }, '12');
    await wait();
    expect(setup.server.held).toHaveLength(2);
    setup.server.held[1]?.();
    await wait(0);
    expect(source()).toContain('--nodes=12 ');
    setup.server.held[0]?.();
    await wait(0);
    expect(source()).toContain('--nodes=12 ');
    expect(line.values['nodes']).toBe(12);
  });

  it('keeps what is typed into it while a change is under way', async () => {
    await shown(CELL);
    setup.server.hold = true;
    line.change({ nodes: '2' }, '2');
    await wait();
    setup.cells.cell?.type(`${CELL}print(2)\n`);
    setup.server.held.forEach(release => release());
    setup.server.hold = false;
    await wait();
    expect(source()).toBe('%%jaxtrain --nodes=2 --odd=x\nprint(1)\nprint(2)\n');
  });

  it('does not get what the server refuses, which stays in its field with the error', async () => {
    await shown(CELL);
    line.change({ nodes: 'four' }, 'four');
    line.change({ queue: 'team' }, 'team');
    await wait();
    expect(source()).toBe('%%jaxtrain --nodes=4 --odd=x --queue=team\nprint(1)\n');
    expect(line.errors).toMatchObject([{ option: 'nodes', message: 'It takes a whole number.' }]);
    expect(line.typed('nodes')).toBe('four');
    line.change({ queue: 'other' }, 'other');
    await wait();
    expect(line.errors).toHaveLength(1);
    expect(setup.server.writes[1]).toEqual({ queue: 'other' });
    line.change({ nodes: '5' }, '5');
    await wait();
    expect(line.errors).toEqual([]);
    expect(line.values['nodes']).toBe(5);
  });

  it('forgets what was refused when the line is changed by hand', async () => {
    await shown(CELL);
    line.change({ nodes: 'four' }, 'four');
    await wait();
    setup.cells.cell?.type('%%jaxtrain --nodes=3');
    await wait();
    expect(line.errors).toEqual([]);
    expect(line.typed('nodes')).toBeUndefined();
  });

  it('leaves the words of a field as they were typed, until the line has another value', async () => {
    await shown(CELL);
    line.change({ timeout: '90m' }, '90m');
    await wait();
    expect(line.values['timeout']).toBe(5400);
    expect(line.typed('timeout')).toBe('90m');
    setup.cells.cell?.type('%%jaxtrain --timeout=2h');
    await wait();
    expect(line.typed('timeout')).toBeUndefined();
  });

  it('is not changed while it is read-only', async () => {
    await shown(CELL);
    Object.assign(setup.cells.cell ?? {}, { editable: false });
    line.change({ nodes: '9' }, '9');
    await wait();
    expect(source()).toBe(CELL);
    expect(line.values['nodes']).toBe(4);
  });

  it('says what went wrong, keeps the change, and makes it when that is over', async () => {
    await shown(CELL);
    setup.server.failing = 'line';
    line.change({ nodes: '2' }, '2');
    await wait();
    expect(line.state).toBe('failed');
    expect(line.error?.message).toBe('The cluster says no.');
    expect(line.values['nodes']).toBe('2');
    setup.server.failing = null;
    await line.again();
    expect(line.state).toBe('synced');
    expect(source()).toContain('--nodes=2 ');
  });
});

describe('another cell', () => {
  it('is read, and the one that is left gets what was on its way', async () => {
    await shown(CELL);
    const first = setup.cells.cell;
    line.change({ nodes: '2' }, '2');
    setup.cells.activate(new FakeCell('%%jaxtrain --nodes=8'));
    expect(line.state).toBe('reading');
    expect(line.values['nodes']).toBe(4); // until the new one is known
    await wait();
    expect(first?.source).toContain('--nodes=2 ');
    expect(line.values).toEqual({ nodes: 8 });
    expect(source()).toBe('%%jaxtrain --nodes=8');
    line.change({ nodes: '9' }, '9');
    await wait();
    expect(first?.source).toContain('--nodes=2 ');
    expect(source()).toBe('%%jaxtrain --nodes=9');
  });

  it('does not get the answer that was for the one before', async () => {
    await shown(CELL);
    setup.server.hold = true;
    line.change({ nodes: '2' }, '2');
    await wait();
    setup.cells.activate(new FakeCell('%%jaxtrain --nodes=8'));
    setup.server.held.forEach(release => release());
    setup.server.hold = false;
    await wait();
    expect(line.values).toEqual({ nodes: 8 });
    expect(source()).toBe('%%jaxtrain --nodes=8');
  });
});

describe('a draft', () => {
  it.each([
    [null, 'no-notebook'],
    ['print(1)\n', 'no-line']
  ])('is shown where the cell is %j', async (cell, state) => {
    await shown(cell);
    expect(line.state).toBe(state);
    line.change({ nodes: '2' }, '2');
    await wait();
    expect(line.line).toMatchObject({ line: '--nodes=2', ask: { nodes: 2 } });
    expect(line.values['nodes']).toBe(2);
    line.change({ nodes: null }, '');
    await wait();
    expect(line.line.line).toBe('');
    expect(source() ?? null).toBe(cell);
  });

  it('goes into a cell when the user says so', async () => {
    await shown('print(1)\n');
    line.change({ nodes: '2' }, '2');
    expect(await line.insert()).toBe(true);
    expect(source()).toBe('%%jaxtrain --nodes=2\nprint(1)\n');
    expect(line.state).toBe('synced');
    setup.cells.activate(new FakeCell('print(2)\n'));
    await wait();
    expect(line.values).toEqual({});
  });

  it('goes there by the command while nobody looks, too', async () => {
    begin('print(1)\n');
    expect(await line.insert()).toBe(true);
    expect(source()).toBe('%%jaxtrain\nprint(1)\n');
    expect(await line.insert()).toBe(true);
    expect(source()).toBe('%%jaxtrain\nprint(1)\n');
  });

  it('stays where it is while has errors with it, or there is no cell for it', async () => {
    await shown('print(1)\n');
    line.change({ nodes: 'x' }, 'x');
    expect(await line.insert()).toBe(false);
    expect(source()).toBe('print(1)\n');
    setup.cells.activate(null);
    expect(await line.insert()).toBe(false);
    setup.cells.activate(Object.assign(new FakeCell('# Title'), { code: false }));
    expect(line.state).toBe('no-code');
    expect(await line.insert()).toBe(false);
    expect(source()).toBe('# Title');
  });

  it('is kept from one cell without a line to the next', async () => {
    await shown('print(1)\n');
    line.change({ nodes: '2' }, '2');
    setup.cells.activate(new FakeCell(''));
    await wait();
    expect(line.line.line).toBe('--nodes=2');
    setup.cells.activate(new FakeCell(CELL));
    await wait();
    expect(line.values['nodes']).toBe(4);
    setup.cells.activate(new FakeCell(''));
    await wait();
    expect(line.line.line).toBe('--nodes=2');
  });
});

it('asks for nothing while nobody looks', async () => {
  begin(CELL);
  setup.cells.cell?.type('%%jaxtrain');
  setup.cells.activate(new FakeCell(CELL));
  await wait(1000);
  expect(setup.server.asked).toEqual([]);
});
