import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { PAGES } from '../../src/core/log/pages';
import { LogServer, many } from '../fakes/logserver';

let server: LogServer;

beforeEach(() => {
  vi.useFakeTimers();
  server = new LogServer();
});

afterEach(() => {
  server.store.dispose();
  server.live.dispose();
  vi.useRealTimers();
});

const text = (index: number) => server.store.line(index)?.text;

describe('a view', () => {
  it('is opened for all ranks, and knows what there is', async () => {
    expect(server.sent[0]).toMatchObject({
      op: 'open',
      topic: 'log',
      key: 'mnist-4',
      sources: null
    });
    expect(server.store.loaded).toBe(false);
    server.print(many(3), { open: { '1': 'step 4' } });
    await server.settle();
    expect(server.store).toMatchObject({ loaded: true, length: 3, complete: true });
    expect(server.store.open).toEqual([{ source: 1, text: 'step 4' }]);
    expect(server.store.sources).toEqual([0, 1]);
    expect(text(2)).toBe('line 2');
  });

  it('asks for a time again until the server has looked at all lines', async () => {
    const answer = (more: object) =>
      server.say({ id: server.sentOf('find').at(-1)?.['id'], kind: 'found', ...more });
    const found = server.store.atTime(1000);
    answer({ position: null, index: null, complete: false });
    await vi.advanceTimersByTimeAsync(150);
    expect(server.sentOf('find')).toHaveLength(2);
    answer({ position: 7, index: 5, complete: true });
    expect(await found).toBe(5);
  });

  it('knows which logs there are, and what the job is called, before any line', () => {
    expect(server.store).toMatchObject({ listed: true, name: 'mnist', loaded: false });
    server.say({ id: server.viewId, kind: 'logs', name: 'other', logs: ['init', 10, 2] });
    expect(server.store).toMatchObject({ name: 'other', sources: [2, 10, 'init'] });
  });

  it('asks for pages around what is shown, and not twice', async () => {
    server.print(many(1000));
    server.store.need(450, 470);
    await server.settle();
    await server.settle();
    expect(text(450)).toBe('line 450');
    const asked = server.sentOf('lines').map(({ start }) => start);
    expect(new Set(asked).size).toBe(asked.length);
    expect(asked).toEqual(expect.arrayContaining([200, 400, 600]));
    expect(asked).not.toContain(800);
  });

  it('asks only for what is new when the log grows', async () => {
    server.print(many(250));
    server.store.need(240, 250);
    await server.settle();
    const kept = server.store.line(249);
    server.print(many(255));
    await server.settle();
    expect(server.sentOf('lines').at(-1)).toMatchObject({ start: 250 });
    expect(text(254)).toBe('line 254');
    expect(server.store.line(249)).toBe(kept);
  });

  it('keeps a bounded number of pages', async () => {
    server.print(many((PAGES + 10) * 200));
    for (let page = 0; page < PAGES + 8; page++) {
      server.store.need(page * 200, page * 200 + 10);
      await server.settle();
      await server.settle();
    }
    expect(text(0)).toBeUndefined();
    expect(text((PAGES + 7) * 200)).toBe(`line ${(PAGES + 7) * 200}`);
  });

  it('goes on after a reconnect with the same lines, once', async () => {
    server.print(many(250));
    server.store.need(200, 250);
    await server.settle();
    const id = server.viewId;
    server.reconnect();
    expect(server.viewId).toBe(id);
    server.state({ length: 10, complete: false });
    expect(server.store.length).toBe(250);
    server.print(many(260));
    await server.settle();
    expect(server.store.length).toBe(260);
    expect([249, 250, 259].map(text)).toEqual(['line 249', 'line 250', 'line 259']);
    expect(text(260)).toBeUndefined();
  });

  it('forgets the lines of another job of the same name', async () => {
    server.print(many(20));
    await server.settle();
    const restarted = vi.fn();
    server.store.onRestart(restarted);
    server.began += 50;
    server.print(['new']);
    await server.settle();
    expect(restarted).toHaveBeenCalledOnce();
    expect(server.store.length).toBe(1);
    expect(text(0)).toBe('new');
  });

  it('can be of other lines, and then has none of the old ones', async () => {
    server.print(many(20));
    await server.settle();
    server.store.choose({ sources: [1], include: { pattern: 'x', regex: false, case: false } });
    expect(server.sent.filter(({ topic }) => topic === 'log').at(-1)).toMatchObject({
      sources: [1],
      include: { pattern: 'x' },
      exclude: null
    });
    expect(server.sentOf('close')).toHaveLength(1);
    expect(text(0)).toBeUndefined();
    server.print(['x']);
    await server.settle();
    expect(text(0)).toBe('x');
  });

  it('is of all ranks where those that were chosen once are not there', () => {
    server.store.choose({ sources: [5] });
    const refused = { kind: 'error', message: 'The job has no such logs: [5].', hint: null };
    server.say({ id: server.viewId, ...refused });
    expect(server.sentOf('open').at(-1)).toMatchObject({ topic: 'log', sources: null });
    expect(server.store.error).toBeNull();
    server.say({ id: server.viewId, ...refused, message: 'There is no such job.' });
    expect(server.store.error?.message).toBe('There is no such job.');
  });

  it('says what the server said', async () => {
    server.say({
      id: server.viewId,
      kind: 'error',
      message: 'There is no such job.',
      hint: 'Look.'
    });
    expect(server.store.error).toMatchObject({ message: 'There is no such job.', hint: 'Look.' });
    const found = server.store.firstError();
    server.say({ id: server.sentOf('find')[0]?.['id'], kind: 'error', message: 'no', hint: null });
    expect(await found).toBeNull();
    expect(server.store.error?.message).toBe('no');
  });
});

describe('a search', () => {
  const WORD = { pattern: 'line', regex: false, case: false };
  const searchId = () => server.sentOf('search').at(-1)?.['id'];
  const hits = (change: object) =>
    server.say({
      id: searchId(),
      kind: 'hits',
      count: 3,
      complete: true,
      near: [],
      before: null,
      ...change
    });
  const hit = (position: number, number: number, count = 3) =>
    server.say({
      id: server.sentOf('hit').at(-1)?.['id'],
      kind: 'hit',
      position,
      index: position,
      number,
      count
    });

  it('goes to the first hit from where one is, and then to the next and the one before', async () => {
    server.print(many(20));
    const arrived = vi.fn();
    server.store.find(WORD, 5, { back: false, then: arrived });
    expect(server.sentOf('search')[0]).toMatchObject({ ...WORD, from: 5, view: server.viewId });
    hits({ complete: false, near: [3] });
    expect(server.sentOf('hit')).toEqual([]);
    hits({ near: [3, 7, 9] });
    expect(server.sentOf('hit').at(-1)).toMatchObject({ from: 8, back: true });
    hit(7, 2);
    await server.settle();
    expect(arrived).toHaveBeenCalledWith({ position: 7, index: 7, number: 2 });
    const next = server.store.search?.next(false);
    expect(server.sentOf('hit').at(-1)).toMatchObject({ from: 7, back: false });
    hit(9, 3);
    await next;
    expect(server.store.search?.at).toEqual({ position: 9, index: 9, number: 3 });
    expect([...(server.store.search?.near ?? [])]).toEqual([3, 7, 9]);
  });

  it('goes to the last hit from the end as soon as that is known, not when all are counted', async () => {
    server.print(many(20));
    const arrived = vi.fn();
    server.store.find(WORD, 19, { back: true, then: arrived });
    hits({ complete: false, near: [3] });
    expect(server.sentOf('hit')).toEqual([]); // nearer ones can come
    hits({ complete: false, near: [3, 18], before: 18 });
    expect(server.sentOf('hit').at(-1)).toMatchObject({ from: 19, back: true });
    hit(18, 2);
    await server.settle();
    expect(arrived).toHaveBeenCalledWith({ position: 18, index: 18, number: 2 });
  });

  it('that has found nothing takes nobody to what is printed later', async () => {
    server.print(many(20));
    const arrived = vi.fn();
    server.store.find(WORD, 19, { back: true, then: arrived });
    hits({ count: 0 });
    hits({ count: 1, near: [30] });
    await server.settle();
    expect(server.sentOf('hit')).toEqual([]);
    expect(server.store.search?.count).toBe(1);
    expect(arrived).not.toHaveBeenCalled();
  });

  it('is opened again after its view, and ends with it', () => {
    server.print(many(20));
    server.store.find(WORD);
    server.reconnect();
    expect(server.sent.slice(0, 2).map(({ op }) => op)).toEqual(['open', 'search']);
    server.store.choose({ raw: true });
    const last = server.sentOf('search').at(-1);
    expect(last).toMatchObject({ view: server.viewId, pattern: 'line' });
    server.store.find(null);
    expect(server.sent.at(-1)).toMatchObject({ op: 'close', id: last?.['id'] });
  });

  it('has the words of the server when the pattern is wrong', () => {
    server.store.find({ ...WORD, regex: true, pattern: '(' });
    server.say({ id: searchId(), kind: 'error', message: 'That is no pattern.', hint: null });
    expect(server.store.search?.error).toBe('That is no pattern.');
  });
});
