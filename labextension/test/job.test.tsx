import { render } from 'preact';
import { act } from 'preact/test-utils';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { Live } from '../src/core/live';
import type { Detail, JobState } from '../src/core/protocol';
import { JobStore } from '../src/core/stores';
import { Job } from '../src/core/views/job';
import { FakeSocket } from './fakesocket';
import { detail, ended, fakeHost, NOW } from './make';

const EVIL = '<img src=x onerror="window.hacked = 1">';

let root: HTMLElement;
let live: Live;
let store: JobStore;
let host: ReturnType<typeof fakeHost>;

beforeEach(() => {
  FakeSocket.all = [];
  live = new Live({ url: () => 'ws://server', connect: url => new FakeSocket(url) });
  host = fakeHost();
  store = new JobStore(live, 'mnist-4');
  root = document.body.appendChild(document.createElement('div'));
  void act(() => {
    render(<Job store={store} host={host} />, root);
    FakeSocket.last.accept();
  });
});

afterEach(() => {
  void act(() => render(null, root));
  root.remove();
  live.dispose();
});

function say(message: object): void {
  void act(() => FakeSocket.last.say({ id: FakeSocket.last.sent[0]?.['id'], ...message }));
}

function show(change: Partial<Detail> = {}, state: Partial<JobState> = {}): void {
  const full = detail(change);
  say({ kind: 'job', detail: { ...full, state: { ...full.state, ...state } } });
}

const texts = (selector: string) =>
  [...root.querySelectorAll(selector)].map(element => element.textContent);

describe('a job', () => {
  it('says what it is and how it came here', () => {
    expect(root.textContent).toBe('Looking for the job…');
    show();
    expect(texts('h2')).toEqual(['mnist-4']);
    expect(texts('.jaxtrain-facts span')).toEqual(['4 nodes × 2 CPU devices', 'this machine']);
    const [queued, running] = texts('.jaxtrain-timeline li');
    expect(queued).toMatch(/^Queued.*for 3 s$/);
    expect(running).toMatch(/^Running/);
    expect(texts('.jaxtrain-source')).toEqual(['%%jaxtrain mnist-4 -n 4\nprint(1)\n']);
  });

  it('shows processes of this machine, or pods of a cluster', () => {
    const rank = { rank: 0, state: 'Running', exit: null };
    show({}, { ranks: [{ ...rank, pid: 42, host: 'ws-1', restarts: 0 }] });
    expect(texts('thead th')).toEqual(['Rank', 'State', 'Process', 'Host', 'Restarts', 'Exit']);
    expect(texts('tbody td')).toEqual(['Running', '42', 'ws-1', '0', '']);
    show({}, { ranks: [{ ...rank, pod: 'x-0-0', host: 'gpu-03', exit: 1 }] });
    expect(texts('thead th')[2]).toBe('Pod');
    expect(texts('tbody td')).toEqual(['Running', 'x-0-0', 'gpu-03', '', '1']);
  });

  it('says why it failed, once, and takes hostile text for text', () => {
    const failure = { rank: 0, kind: 'exception', message: EVIL, exit: 1 };
    show({ row: ended({ state: 'Failed', reason: EVIL, hint: EVIL }), code: EVIL }, { failure });
    expect(texts('.jaxtrain-why')).toEqual([EVIL + EVIL]);
    expect(root.querySelector('img')).toBeNull();
    show({ row: ended({ state: 'Failed', reason: `rank 0: ${EVIL}` }) }, { failure });
    expect(texts('.jaxtrain-why pre')).toEqual([]);
    show({ row: ended({ state: 'Failed', reason: 'rank 0 failed' }) }, { failure });
    expect(texts('.jaxtrain-why pre')).toEqual([EVIL]);
  });

  it('tells what happened', () => {
    show();
    const event = { time: NOW, kind: 'restart', rank: 2, message: 'was preempted' };
    say({ kind: 'events', from: 0, events: [event, { ...event, rank: null, message: EVIL }] });
    const [first, second] = texts('section:nth-of-type(2) li');
    expect(first).toMatch(/rank 2: was preempted$/);
    expect(second?.endsWith(EVIL)).toBe(true);
  });

  it('offers what the server allows', () => {
    show({ row: ended({ actions: ['delete'], ended: NOW }) });
    expect(texts('.jaxtrain-actions button')).toEqual(['Delete']);
    void act(() => root.querySelector<HTMLElement>('.jaxtrain-actions button')?.click());
    expect(host.act.mock.lastCall?.[1]).toBe('delete');
  });

  it('says that it is gone, when it is', () => {
    show();
    say({ kind: 'error', message: "There is no job 'mnist-4' (any more).", hint: null });
    expect(root.textContent).toContain('There is no job');
    expect(texts('h2')).toEqual([]);
  });
});
