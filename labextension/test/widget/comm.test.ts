import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Api } from '../../src/core/base/api';
import { Live } from '../../src/core/base/live';
import type { Message } from '../../src/core/base/protocol';
import { Comm } from '../../src/widget/comm';
import { row } from '../fakes/make';
import { FakeModel } from '../fakes/model';

let model: FakeModel;
let comm: Comm;
let api: Api;
let live: Live;

beforeEach(() => {
  vi.useFakeTimers();
  model = new FakeModel();
  comm = new Comm(model);
  api = new Api(comm.fetch);
  live = new Live({ url: () => 'comm', connect: () => comm.connect() });
});

afterEach(() => {
  live.dispose();
  vi.useRealTimers();
});

const soon = () => vi.advanceTimersByTimeAsync(0);
const last = () => model.sent.at(-1) ?? {};

describe('requests over the comm', () => {
  it('are answered one by one, in whatever order', async () => {
    const jobs = api.get('jobs');
    const done = api.post('next-cell', { source: 'x' });
    const [first, second] = model.sent;
    expect(first).toMatchObject({ ask: 1, method: 'GET', path: 'jobs', body: null });
    expect(second).toMatchObject({ method: 'POST', path: 'next-cell', body: { source: 'x' } });
    expect(first?.['page']).toBe(second?.['page']);
    model.say({ page: second?.['page'], answer: 2, status: 200, body: {} });
    model.say({ page: first?.['page'], answer: 1, status: 200, body: { jobs: [row()] } });
    expect(await done).toEqual({});
    expect(await jobs).toEqual({ jobs: [row()] });
  });

  it('fail in the words of the kernel', async () => {
    const done = api.post('next-cell', { source: 'x' });
    const body = { message: 'This page cannot do that.', hint: 'Copy it.' };
    model.say({ page: last()['page'], answer: 1, status: 501, body });
    await expect(done).rejects.toMatchObject(body);
  });

  it('are not answered by what is meant for other views', async () => {
    const answered = vi.fn();
    void comm.fetch('jobs').then(answered);
    model.say({ page: 'another', answer: 1, status: 200, body: {} });
    await soon();
    expect(answered).not.toHaveBeenCalled();
  });
});

describe('live topics over the comm', () => {
  it('are opened, heard and closed as over a WebSocket', async () => {
    const heard: Message[] = [];
    const first = live.open({ op: 'open', topic: 'jobs' }, message => heard.push(message));
    await soon();
    expect(live.status).toBe('open');
    const { page, say } = last();
    expect(say).toEqual({ op: 'open', topic: 'jobs', id: first.id });
    const message = { id: first.id, kind: 'jobs', all: true, rows: [row()] };
    model.say({ page, hear: [message, message] });
    model.say({ page: 'another', hear: [message] });
    expect(heard).toEqual([message, message]);
    const second = live.open({ op: 'open', topic: 'job', key: 'a' }, () => {});
    second.close();
    expect(last()).toEqual({ page, say: { op: 'close', id: second.id } });
    first.close();
    expect(last()).toEqual({ page, end: true });
  });

  it('have another page after a new connection, and end with the view', async () => {
    live.open({ op: 'open', topic: 'jobs' }, () => {});
    await soon();
    const { page } = last();
    live.reconnect();
    await soon();
    expect(last()['page']).not.toBe(page);
    expect(model.sent).toContainEqual({ page, end: true });
    live.dispose();
    comm.dispose();
    const ended = model.sent.filter(({ end }) => end).map(message => message['page']);
    expect(new Set(ended).size).toBe(3); // two connections, and the requests
    expect(model.listeners).toBe(0);
  });
});

describe('a kernel that does not answer', () => {
  it('is said to be silent after a while, until it speaks', () => {
    const told = vi.fn();
    comm.subscribe(told);
    void comm.fetch('jobs');
    vi.advanceTimersByTime(4000);
    expect(comm.silent).toBe(false);
    vi.advanceTimersByTime(2000);
    expect(comm.silent).toBe(true);
    expect(told).toHaveBeenCalledTimes(1);
    model.say({ page: last()['page'], answer: 1, status: 200, body: {} });
    expect(comm.silent).toBe(false);
    vi.advanceTimersByTime(60_000);
    expect(comm.silent).toBe(false);
  });

  it('is given as long as it says that it may take', () => {
    model.values['patience'] = 30;
    void comm.fetch('jobs');
    vi.advanceTimersByTime(29_000);
    expect(comm.silent).toBe(false);
    vi.advanceTimersByTime(2000);
    expect(comm.silent).toBe(true);
  });

  it('is not thought to be when nothing was asked', async () => {
    const opened = live.open({ op: 'open', topic: 'jobs' }, () => {});
    await soon();
    model.say({
      page: last()['page'],
      hear: [{ id: opened.id, kind: 'jobs', all: true, rows: [] }]
    });
    opened.close();
    vi.advanceTimersByTime(60_000);
    expect(comm.silent).toBe(false);
  });
});
