import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Live, type LiveOptions } from '../../src/core/base/live';
import type { Message, Problem } from '../../src/core/base/protocol';
import { backOff } from '../../src/core/base/reconnect';
import { FakeSocket } from '../fakes/socket';

const JOBS = { op: 'open', topic: 'jobs' } as const;
const JOB = { op: 'open', topic: 'job', key: 'a' } as const;

const made: Live[] = [];

function make(options: Partial<LiveOptions> = {}): Live {
  const live = new Live({
    url: () => 'ws://server/base/jaxtrain/api/live',
    connect: url => new FakeSocket(url),
    random: () => 1,
    ...options
  });
  made.push(live);
  return live;
}

function empty(id: number): Message {
  return { id, kind: 'jobs', all: true, rows: [] };
}

beforeEach(() => {
  vi.useFakeTimers();
  FakeSocket.all = [];
});

afterEach(() => {
  made.splice(0).forEach(live => live.dispose());
  vi.useRealTimers();
  vi.restoreAllMocks();
});

describe('opening', () => {
  it('connects when the first thing is opened, and says so once the socket is open', () => {
    const live = make();
    expect(FakeSocket.all).toEqual([]);
    const { id } = live.open(JOBS, vi.fn());
    expect(live.status).toBe('connecting');
    expect(FakeSocket.last.sent).toEqual([]);
    FakeSocket.last.accept();
    expect(live.status).toBe('open');
    expect(FakeSocket.last.sent).toEqual([{ op: 'open', topic: 'jobs', id }]);
  });

  it('gives a message to the one who opened its id, in order', () => {
    const live = make();
    const seen: [string, Message][] = [];
    const jobs = live.open(JOBS, message => seen.push(['jobs', message]));
    const job = live.open(JOB, message => seen.push(['job', message]));
    FakeSocket.last.accept();
    FakeSocket.last.say({ id: job.id, kind: 'events', from: 0, events: [] });
    FakeSocket.last.say(empty(jobs.id));
    FakeSocket.last.say({ id: job.id, kind: 'events', from: 7, events: [] });
    FakeSocket.last.say(empty(999));
    expect(seen.map(([name]) => name)).toEqual(['job', 'jobs', 'job']);
  });

  it('says what is opened later at once', () => {
    const live = make();
    live.open(JOBS, vi.fn());
    FakeSocket.last.accept();
    const { id } = live.open(JOB, vi.fn());
    expect(FakeSocket.last.sent.at(-1)).toEqual({ op: 'open', topic: 'job', key: 'a', id });
    expect(FakeSocket.all).toHaveLength(1);
  });
});

describe('closing', () => {
  it('tells the server, and delivers nothing more', () => {
    const live = make();
    live.open(JOBS, vi.fn());
    const listener = vi.fn();
    const job = live.open(JOB, listener);
    FakeSocket.last.accept();
    job.close();
    job.close();
    expect(FakeSocket.last.sent.filter(({ op }) => op === 'close')).toEqual([
      { op: 'close', id: job.id }
    ]);
    FakeSocket.last.say({ id: job.id, kind: 'error', message: 'late', hint: null });
    expect(listener).not.toHaveBeenCalled();
  });

  it('ends the connection with the last one, and makes it again for the next', () => {
    const live = make();
    live.open(JOBS, vi.fn()).close();
    expect(FakeSocket.last.closed).toBe(true);
    vi.advanceTimersByTime(600_000);
    expect(FakeSocket.all).toHaveLength(1);
    live.open(JOBS, vi.fn());
    expect(FakeSocket.all).toHaveLength(2);
  });

  it('leaves nothing behind when it is disposed of', () => {
    const live = make();
    live.open(JOBS, vi.fn());
    live.dispose();
    expect(FakeSocket.last.closed).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
    expect(() => live.open(JOBS, vi.fn())).toThrow('disposed');
  });
});

describe('reconnecting', () => {
  it('opens everything again under the same ids, in the same order, without what was closed', () => {
    const live = make();
    const jobs = live.open(JOBS, vi.fn());
    const closed = live.open(JOB, vi.fn());
    const job = live.open(JOB, vi.fn());
    FakeSocket.last.accept();
    closed.close();
    FakeSocket.last.drop();
    expect(live.status).toBe('waiting');
    vi.advanceTimersByTime(500);
    FakeSocket.last.accept();
    expect(FakeSocket.all).toHaveLength(2);
    expect(FakeSocket.last.sent.map(({ id }) => id)).toEqual([jobs.id, job.id]);
  });

  it('never delivers what a socket says that was given up', () => {
    const live = make();
    const listener = vi.fn();
    const { id } = live.open(JOBS, listener);
    const old = FakeSocket.last;
    old.accept();
    const { onmessage } = old;
    live.reconnect();
    old.say(empty(id));
    expect(old.onmessage).toBeNull();
    expect(onmessage).not.toBeNull();
    expect(listener).not.toHaveBeenCalled();
  });

  it('waits longer each time, up to half a minute, until the server has answered', () => {
    const live = make();
    const { id } = live.open(JOBS, vi.fn());
    const waits: number[] = [];
    for (let n = 0; n < 9; n++) {
      const before = FakeSocket.all.length;
      FakeSocket.last.drop();
      let wait = 0;
      while (FakeSocket.all.length === before) {
        vi.advanceTimersByTime(500);
        wait += 500;
      }
      waits.push(wait);
    }
    expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
    FakeSocket.last.accept();
    FakeSocket.last.say(empty(id));
    FakeSocket.last.drop();
    const before = FakeSocket.all.length;
    vi.advanceTimersByTime(500);
    expect(FakeSocket.all).toHaveLength(before + 1);
  });

  it('spreads the attempts of many pages', () => {
    expect(backOff(3, () => 0)).toBe(2000);
    expect(backOff(3, () => 1)).toBe(4000);
    expect(backOff(1000, () => 1)).toBe(30_000);
  });

  it('asks for the address each time', () => {
    let token = 'a';
    const live = make({ url: () => `ws://server/live?token=${token}` });
    live.open(JOBS, vi.fn());
    token = 'b';
    live.reconnect();
    expect(FakeSocket.all.map(({ url }) => url.slice(-1))).toEqual(['a', 'b']);
  });

  it('tries at once when the network is back, and after a sleep', () => {
    const live = make();
    live.open(JOBS, vi.fn());
    FakeSocket.last.drop();
    window.dispatchEvent(new Event('online'));
    expect(FakeSocket.all).toHaveLength(2);
    FakeSocket.last.accept();
    vi.setSystemTime(Date.now() + 3_600_000);
    vi.advanceTimersByTime(15_000);
    expect(FakeSocket.all).toHaveLength(3);
    expect(FakeSocket.all[1]?.closed).toBe(true);
  });

  it('does not take slow timers of a hidden page for a sleep', () => {
    const live = make();
    live.open(JOBS, vi.fn());
    FakeSocket.last.accept();
    vi.setSystemTime(Date.now() + 60_000);
    vi.advanceTimersByTime(15_000);
    expect(FakeSocket.all).toHaveLength(1);
  });
});

describe('what goes wrong', () => {
  const missing: Problem = { kind: 'missing', message: 'not here', hint: null };

  it('is found out when no connection could be made, and forgotten when the server answers', async () => {
    const live = make({ probe: () => Promise.resolve({ ...missing, kind: 'unreachable' }) });
    const listener = vi.fn();
    live.subscribe(listener);
    const { id } = live.open(JOBS, vi.fn());
    FakeSocket.last.drop();
    await vi.advanceTimersByTimeAsync(0);
    expect(live.problem?.message).toBe('not here');
    await vi.advanceTimersByTimeAsync(500);
    FakeSocket.last.accept();
    expect(live.problem).not.toBeNull();
    listener.mockClear();
    FakeSocket.last.say(empty(id));
    expect(live.problem).toBeNull();
    expect(listener).toHaveBeenCalledOnce();
  });

  it('is tried seldom where the server extension is missing, and at once when the user says so', async () => {
    const live = make({ probe: () => Promise.resolve(missing) });
    live.open(JOBS, vi.fn());
    FakeSocket.last.drop();
    await vi.advanceTimersByTimeAsync(299_000);
    expect(FakeSocket.all).toHaveLength(1);
    live.reconnect();
    expect(FakeSocket.all).toHaveLength(2);
    FakeSocket.last.drop();
    await vi.advanceTimersByTimeAsync(301_000);
    expect(FakeSocket.all).toHaveLength(3);
  });

  it('is said when requests are answered and no connection comes, not at the first attempt', async () => {
    const live = make({ probe: () => Promise.resolve(null) });
    const { id } = live.open(JOBS, vi.fn());
    for (const said of [undefined, 'shut', 'shut']) {
      FakeSocket.last.drop();
      await vi.advanceTimersByTimeAsync(0);
      expect(live.problem?.kind).toBe(said);
      await vi.advanceTimersByTimeAsync(2000);
    }
    FakeSocket.last.accept();
    FakeSocket.last.say(empty(id));
    expect(live.problem).toBeNull();
  });

  it('is not asked for when a connection was lost, and a failing probe does no harm', async () => {
    const probe = vi.fn(() => Promise.reject(new Error('no network')));
    const live = make({ probe });
    const { id } = live.open(JOBS, vi.fn());
    FakeSocket.last.accept();
    FakeSocket.last.say(empty(id));
    FakeSocket.last.drop();
    expect(probe).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(500);
    FakeSocket.last.drop();
    await vi.advanceTimersByTimeAsync(0);
    expect(probe).toHaveBeenCalledOnce();
    expect(live.problem).toBeNull();
  });

  it('goes on after an address that cannot be, a message that is no JSON, a listener that throws', () => {
    vi.spyOn(console, 'warn').mockImplementation(() => undefined);
    const error = vi.spyOn(console, 'error').mockImplementation(() => undefined);
    let bad = true;
    const live = make({
      connect: url => {
        if (bad) {
          throw new SyntaxError('bad address');
        }
        return new FakeSocket(url);
      }
    });
    const listener = vi.fn(() => {
      throw new Error('mine');
    });
    const { id } = live.open(JOBS, listener);
    expect(live.status).toBe('waiting');
    bad = false;
    vi.advanceTimersByTime(500);
    FakeSocket.last.accept();
    FakeSocket.last.say('{');
    FakeSocket.last.say(empty(id));
    FakeSocket.last.say(empty(id));
    expect(listener).toHaveBeenCalledTimes(2);
    expect(error).toHaveBeenCalledTimes(2);
  });

  it('comes to the listener when the server says so', () => {
    const live = make();
    const listener = vi.fn();
    const { id } = live.open(JOB, listener);
    FakeSocket.last.accept();
    const message = { id, kind: 'error', message: 'There is no job a.', hint: null };
    FakeSocket.last.say(message);
    expect(listener).toHaveBeenCalledWith(message);
  });
});
