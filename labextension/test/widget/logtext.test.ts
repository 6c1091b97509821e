import { afterEach, beforeEach, expect, it } from 'vitest';

import { Live } from '../../src/core/base/live';
import { logText } from '../../src/widget/logtext';
import { FakeSocket } from '../fakes/socket';

let live: Live;

beforeEach(() => {
  FakeSocket.all = [];
  live = new Live({ url: () => 'ws://server', connect: url => new FakeSocket(url) });
});

afterEach(() => live.dispose());

const turn = () => new Promise(resolve => setTimeout(resolve));
const say = (message: object) => FakeSocket.last.say(message);
const last = () => FakeSocket.last.sent.at(-1) ?? {};

it('brings a log as text, page by page, long lines in full', async () => {
  const text = logText(live, 'a', null);
  FakeSocket.last.accept();
  const { id } = last();
  expect(last()).toMatchObject({ topic: 'log', key: 'a', sources: null });
  say({ id, kind: 'log', length: 7, complete: false });
  say({ id, kind: 'log', length: 202, complete: true });
  await turn();
  expect(last()).toMatchObject({ op: 'lines', view: id, start: 0, count: 200 });
  const lines = Array.from({ length: 200 }, (_, n) => [n, n % 2, null, `line ${n}`, 6]);
  say({ id: last()['id'], kind: 'lines', start: 0, lines });
  await turn();
  expect(last()).toMatchObject({ op: 'lines', start: 200, count: 2 });
  const rest = [
    [200, 1, null, 'é', 2],
    [201, 0, null, 'cut', 9000]
  ];
  say({ id: last()['id'], kind: 'lines', start: 200, lines: rest });
  await turn();
  expect(last()).toMatchObject({ op: 'line', view: id, position: 201 });
  say({
    id: last()['id'],
    kind: 'line',
    position: 201,
    source: 0,
    time: null,
    text: 'cut no more'
  });
  const whole = (await text).split('\n');
  expect(whole.slice(0, 2)).toEqual(['[0] line 0', '[1] line 1']);
  expect(whole.slice(-3)).toEqual(['[1] é', '[0] cut no more', '']);
  expect(FakeSocket.last.closed).toBe(true);
});

it('says why there is none', async () => {
  const text = logText(live, 'a', 0);
  FakeSocket.last.accept();
  expect(last()).toMatchObject({ sources: [0] });
  say({ id: last()['id'], kind: 'error', message: 'There is no such job.', hint: null });
  await expect(text).rejects.toMatchObject({ message: 'There is no such job.' });
});
