import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { Live } from '../../src/core/base/live';
import { FakeSocket } from '../fakes/socket';

let live: Live;

beforeEach(() => {
  vi.useFakeTimers();
  FakeSocket.all = [];
});

afterEach(() => {
  live.dispose();
  vi.useRealTimers();
});

it('connects again when nothing comes, whether there was a connection or is to be one', () => {
  live = new Live({ url: () => '', connect: url => new FakeSocket(url), silence: 40_000 });
  live.open({ op: 'open', topic: 'jobs' }, vi.fn());
  FakeSocket.last.accept();
  for (let n = 0; n < 5; n++) {
    vi.advanceTimersByTime(20_000);
    FakeSocket.last.say({ id: null, kind: 'alive' });
  }
  expect(FakeSocket.all).toHaveLength(1);
  vi.advanceTimersByTime(46_000);
  expect(FakeSocket.all).toHaveLength(2);
  vi.advanceTimersByTime(46_000);
  expect(FakeSocket.all).toHaveLength(3);
});

it('does not mind the silence of a kernel', () => {
  live = new Live({ url: () => '', connect: url => new FakeSocket(url) });
  live.open({ op: 'open', topic: 'jobs' }, vi.fn());
  FakeSocket.last.accept();
  vi.advanceTimersByTime(140_000);
  expect(FakeSocket.all).toHaveLength(1);
});
