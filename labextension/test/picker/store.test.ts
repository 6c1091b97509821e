import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { fieldsOf, textOf, valueOf } from '../../src/core/picker/fields';
import {
  changesForPlace,
  changesForRuntime,
  matching,
  namespaceOf,
  placeOf
} from '../../src/core/picker/places';
import type { PickerStore } from '../../src/core/picker/store';
import { HERE, option, OPTIONS, place, runtime, setUp, type Setup } from '../fakes/picker';

const GKE = place();
const LAB = place({ id: 'context:lab', context: 'lab', namespace: 'default', current: false });
const TOY = { ...HERE, id: 'toy', backend: 'toy', runtime_prefix: null };
const ALL = [HERE, TOY, GKE, LAB];

describe('the place of a line', () => {
  it.each([
    [{}, 'local'],
    [{ runtime: 'local-gpu' }, 'local'],
    [{ runtime: 'jax-gpu' }, 'context:gke'],
    [{ backend: 'kubernetes' }, 'context:gke'],
    [{ namespace: 'x' }, 'context:gke'],
    [{ context: 'lab' }, 'context:lab'],
    [{ context: 'lab', backend: 'local' }, 'local'],
    [{ context: 'gone' }, undefined],
    [{ backend: 'toy' }, 'toy'],
    [{ backend: 'auto', runtime: 'jax-gpu' }, 'context:gke']
  ])('with %j is %s', (values, id) => {
    expect(placeOf(values, ALL)?.id).toBe(id);
  });

  it('has the namespace of the line, else its own', () => {
    expect(namespaceOf({}, GKE)).toBe('team-a');
    expect(namespaceOf({ namespace: 'x' }, GKE)).toBe('x');
    expect(namespaceOf({ namespace: 'x' }, HERE)).toBeNull();
  });
});

describe('what is changed', () => {
  it('for a cluster names it, and drops what is of another place', () => {
    expect(changesForPlace(GKE, {})).toEqual({ backend: 'kubernetes' });
    expect(changesForPlace(LAB, { runtime: 'jax-cpu', namespace: 'x' })).toEqual({
      backend: 'kubernetes',
      context: 'lab',
      namespace: null,
      runtime: null
    });
  });

  it('for this machine takes away what names a cluster, and no more', () => {
    const values = { backend: 'kubernetes', context: 'lab', runtime: 'jax-cpu', nodes: 2 };
    expect(changesForPlace(HERE, values)).toEqual({ backend: null, context: null, runtime: null });
    expect(changesForPlace(HERE, { runtime: 'local-cpu' })).toEqual({});
  });

  it('for a place that is neither the usual one nor a cluster names its backend', () => {
    const values = { context: 'lab', runtime: 'jax-cpu' };
    const changes = { backend: 'toy', context: null, runtime: null };
    expect(changesForPlace(TOY, values, ALL)).toEqual(changes);
    expect(changesForPlace(HERE, { backend: 'toy' }, ALL)).toEqual({ backend: null });
  });

  it('for a runtime keeps the job where it is', () => {
    expect(changesForRuntime('jax-cpu', GKE, { backend: 'kubernetes' })).toEqual({
      runtime: 'jax-cpu',
      backend: null
    });
    expect(changesForRuntime(null, GKE, { runtime: 'jax-cpu' })).toEqual({
      runtime: null,
      backend: 'kubernetes'
    });
    expect(changesForRuntime('local-cpu', HERE, {})).toEqual({ runtime: 'local-cpu' });
  });
});

it('finds runtimes by all words', () => {
  const all = [runtime(), runtime({ name: 'jax-h100', device: 'gpu', python: '3.11' })];
  const found = (text: string) => matching(all, text).map(({ name }) => name);
  expect(found('')).toHaveLength(2);
  expect(found('GPU h100')).toEqual(['jax-h100']);
  expect(found('py 3.12')).toEqual(['jax-cpu']);
  expect(found('example.org tpu')).toEqual([]);
});

describe('a field', () => {
  const [names, lines] = ['out', 'env'].map(name => OPTIONS.find(each => each.name === name));

  it('shows a value as it is typed', () => {
    const timeout = option('timeout', { kind: 'duration' });
    expect([5400, 90, 172_800, 0.5].map(value => textOf(timeout, value))).toEqual([
      '1h30m',
      '1m30s',
      '2d',
      '0.5s'
    ]);
    expect(names && textOf(names, ['a', 'b'])).toBe('a, b');
    expect(lines && textOf(lines, { A: '1', B: '' })).toBe('A=1\nB=');
    expect([textOf(timeout, null), textOf(option('nodes'), 4)]).toEqual(['', '4']);
  });

  it('sends what is typed, and leaves what it means to the server', () => {
    expect(valueOf(option('queue'), '  ')).toBeNull();
    expect(names && valueOf(names, 'a, b, ')).toBe('a, b');
    expect(lines && valueOf(lines, 'A=1\n\nB=x y\n')).toEqual(['A=1', 'B=x y']);
    expect(lines && valueOf(lines, '\n')).toBeNull();
  });

  it('for clusters alone is there with one, and where it has a value', () => {
    const more = (cluster: boolean, values = {}) =>
      fieldsOf(OPTIONS, cluster, values).more.map(({ name }) => name);
    expect(fieldsOf(OPTIONS, false, {}).main.map(({ name }) => name)).toEqual([
      'nodes',
      'device',
      'devices_per_node',
      'out'
    ]);
    expect(more(false)).toEqual(['name', 'timeout', 'env', 'detach']);
    expect(more(true)).toEqual(['name', 'timeout', 'queue', 'env', 'detach']);
    expect(more(false, { queue: 'x' })).toContain('queue');
  });
});

describe('the store', () => {
  let setup: Setup;
  let store: PickerStore;

  beforeEach(() => {
    vi.useFakeTimers();
    setup = setUp('%%jaxtrain --nodes=2\n');
    ({ store } = setup);
  });

  afterEach(() => {
    store.dispose();
    vi.useRealTimers();
  });

  const wait = (time = 0) => vi.advanceTimersByTimeAsync(time);

  it('asks for nothing before somebody looks, and then for each place once', async () => {
    expect(setup.server.asked).toEqual([]);
    store.show(true);
    await wait();
    expect(store.place?.id).toBe('local');
    expect(store.view?.runtimes.value).toHaveLength(2);
    expect(setup.server.count('health?place=local')).toBe(1);
    const gke = setup.server.places[1];
    store.choosePlace(gke ?? HERE);
    await wait(150);
    expect(setup.cells.cell?.source).toBe('%%jaxtrain --nodes=2 --backend=kubernetes\n');
    expect(setup.server.count('runtimes?place=context%3Agke')).toBe(1);
    setup.cells.cell?.type('%%jaxtrain');
    await wait(150);
    expect(store.place?.id).toBe('local');
    expect(setup.server.count('health?place=local')).toBe(1);
  });

  it('asks for another namespace when there is one, and not for one that is refused', async () => {
    store.show(true);
    await wait();
    setup.cells.cell?.type('%%jaxtrain --context=lab');
    await wait(150);
    store.chooseNamespace('x');
    await wait(150);
    expect(store.namespace).toBe('x');
    expect(setup.server.count('runtimes?place=context%3Alab&namespace=x')).toBe(1);
    store.chooseNamespace('team-a');
    await wait(150);
    expect(setup.cells.cell?.source).toBe('%%jaxtrain --context=lab');
  });

  it('looks again when it is asked to, and keeps what is known meanwhile', async () => {
    store.show(true);
    await wait();
    setup.server.failing = 'runtimes';
    store.refresh();
    expect(store.view?.runtimes.value).toHaveLength(2);
    await wait();
    expect(store.view?.runtimes.error?.hint).toBe('Ask for more.');
    expect(store.view?.runtimes.value).toHaveLength(2);
    expect(setup.server.count('health?place=local')).toBe(1);
    // The server keeps its answers for some seconds, and something may have been mended since.
    expect(setup.server.count('health?place=local&fresh=1')).toBe(1);
  });

  it.each([
    ['places', 503],
    ['line/read', 504],
    ['runtimes', 503]
  ])('repeats %s until there is an answer, less and less often', async (path, status) => {
    const asked = () => setup.server.asked.filter(ask => ask.path.startsWith(path)).length;
    Object.assign(setup.server, { failing: path, status });
    store.show(true);
    await wait();
    const first = asked();
    expect(first).toBeGreaterThan(0);
    await wait(5_000);
    expect(asked()).toBe(first + 1);
    await wait(9_000);
    expect(asked()).toBe(first + 1);
    await wait(1_000);
    expect(asked()).toBe(first + 2);
    store.show(false);
    await wait(3_600_000);
    expect(asked()).toBe(first + 2);
    store.show(true);
    await wait(20_000);
    const before = asked();
    expect(before).toBeGreaterThan(first + 2);
    setup.server.failing = null;
    await wait(600_000);
    expect(asked()).toBe(before + 1);
    expect(store.problem).toBeNull();
    expect(store.line.state).toBe('synced');
    expect(store.view?.runtimes.value).toHaveLength(2);
    expect(store.view?.runtimes.error).toBeNull();
    expect(setup.server.asked.some(ask => ask.path.includes('fresh'))).toBe(false);
  });

  it('does not repeat what was refused', async () => {
    setup.server.failing = '';
    store.show(true);
    await wait();
    const before = setup.server.asked.length;
    await wait(3_600_000);
    expect(setup.server.asked).toHaveLength(before);
  });

  it('does not ask for a place that cannot be used', async () => {
    setup.server.places = [HERE, place({ problem: 'No package.', hint: 'pip install it' })];
    setup.cells.cell?.type('%%jaxtrain --backend=kubernetes');
    store.show(true);
    await wait();
    expect(store.place?.problem).toBe('No package.');
    expect(setup.server.asked.filter(({ path }) => path.includes('place='))).toEqual([]);
  });

  it('says why it has nothing, and has it when that is over', async () => {
    setup.server.failing = '';
    store.show(true);
    await wait();
    expect(store.problem?.message).toBe('The cluster says no.');
    setup.server.failing = null;
    await store.retry();
    expect(store.problem).toBeNull();
    expect(store.line.state).toBe('synced');
  });

  it('runs the cell when it says what the form says, and not with an error', async () => {
    store.show(true);
    await wait();
    store.line.change({ nodes: '3' }, '3');
    await store.run();
    expect(setup.cells.cell?.source).toBe('%%jaxtrain --nodes=3\n');
    expect(setup.cells.runs).toBe(1);
    store.line.change({ nodes: 'x' }, 'x');
    await store.run();
    expect(setup.cells.runs).toBe(1);
  });
});
