import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { isAborted, ServerError } from '../../src/core/base/errors';
import { Live } from '../../src/core/base/live';
import { FakeSocket } from '../fakes/socket';

const LOG = {
  op: 'open',
  topic: 'log',
  key: 'a',
  sources: null,
  include: null,
  exclude: null,
  raw: false
} as const;

let live: Live;

beforeEach(() => {
  FakeSocket.all = [];
  live = new Live({ url: () => 'ws://server', connect: url => new FakeSocket(url) });
});

afterEach(() => live.dispose());

function ask() {
  const view = live.open(LOG, vi.fn());
  FakeSocket.last.accept();
  const stop = new AbortController();
  const question = { op: 'lines', view: view.id, start: 0, count: 2 } as const;
  const answer = live.ask(question, stop.signal);
  const id = Number(FakeSocket.last.sent.at(-1)?.['id']);
  return { view, stop, answer, id };
}

describe('asking', () => {
  it('gives the answer, once', async () => {
    const { answer, id } = ask();
    const lines = [[0, 0, null, 'a', 1]];
    FakeSocket.last.say({ id, kind: 'lines', start: 0, lines });
    expect(await answer).toMatchObject({ start: 0, lines });
    live.reconnect();
    FakeSocket.last.accept();
    expect(FakeSocket.last.sent).toHaveLength(1);
  });

  it('asks again after a reconnect, when what it is about is open', async () => {
    const { view, answer, id } = ask();
    live.reconnect();
    FakeSocket.last.accept();
    expect(FakeSocket.last.sent.map(sent => sent['id'])).toEqual([view.id, id]);
    FakeSocket.last.say({ id, kind: 'lines', start: 0, lines: [] });
    expect((await answer).lines).toEqual([]);
  });

  it('fails with the words of the server', async () => {
    const { answer, id } = ask();
    FakeSocket.last.say({ id, kind: 'error', message: 'That log is not open.', hint: 'Open it.' });
    const error = await answer.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ServerError);
    expect(error).toMatchObject({ message: 'That log is not open.', hint: 'Open it.' });
  });

  it('can be aborted, and ends with the connection', async () => {
    const { view, stop, answer, id } = ask();
    stop.abort();
    expect(isAborted(await answer.catch((reason: unknown) => reason))).toBe(true);
    FakeSocket.last.say({ id, kind: 'lines', start: 0, lines: [] });
    const early = live.ask({ op: 'line', view: view.id, position: 0 }, stop.signal);
    await expect(early).rejects.toThrow('aborted');
    const late = live.ask({ op: 'line', view: view.id, position: 0 });
    live.dispose();
    await expect(late).rejects.toThrow('aborted');
  });
});
