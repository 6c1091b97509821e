import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Live } from '../../src/core/base/live';
import type { Message, Row } from '../../src/core/base/protocol';
import { JobStore } from '../../src/core/job/store';
import { JobsStore, loadedJobs } from '../../src/core/jobs/store';
import { all, changed, detail, ended, NOW, row } from '../fakes/make';
import { FakeSocket } from '../fakes/socket';

let live: Live;

beforeEach(() => {
  FakeSocket.all = [];
  live = new Live({ url: () => 'ws://server', connect: url => new FakeSocket(url) });
});

afterEach(() => live.dispose());

function say(make: (id: number) => Message): void {
  FakeSocket.last.say(make(Number(FakeSocket.last.sent[0]?.['id'])));
}

describe('the store of all jobs', () => {
  let store: JobsStore;
  const keys = () => store.rows.map(({ key }) => key);

  beforeEach(() => {
    store = new JobsStore(live);
    FakeSocket.last.accept();
  });

  it('has nothing before the list has come', () => {
    expect(store.loaded).toBe(false);
    say(id => all(id, []));
    expect(store.loaded).toBe(true);
  });

  it('says what ended while it rested when it wakes, and asks for nothing before', () => {
    const ends: string[] = [];
    store.onEnded(({ key }) => ends.push(key));
    say(id => all(id, [row({ key: 'a' })]));
    store.pause();
    expect(FakeSocket.last.closed).toBe(true);
    store.resume();
    store.resume();
    FakeSocket.last.accept();
    expect(FakeSocket.all).toHaveLength(2);
    expect(FakeSocket.last.sent).toHaveLength(1);
    const later = ended({ key: 'new', created: NOW });
    const older = ended({ key: 'attached', created: NOW - 9e6 });
    say(id => all(id, [ended({ key: 'a' }), later, older]));
    expect(ends).toEqual(['a', 'new']); // also what both began and ended meanwhile
  });

  it('can be waited for', async () => {
    const loaded = loadedJobs(store);
    say(id => all(id, [row({ key: 'a' })]));
    expect((await loaded)?.map(({ key }) => key)).toEqual(['a']);
    const other = new JobsStore(live);
    const refused = loadedJobs(other);
    const id = Number(FakeSocket.last.sent.at(-1)?.['id']);
    FakeSocket.last.say({ id, kind: 'error', message: 'No.', hint: null });
    expect(await refused).toBeNull();
    other.dispose();
  });

  it('takes what changed, adds what is new and drops what is gone, newest first', () => {
    say(id => all(id, [row({ key: 'b', created: 2 }), row({ key: 'a', created: 1 })]));
    say(id => changed(id, [row({ key: 'c', created: 3 })], ['b']));
    expect(keys()).toEqual(['c', 'a']);
    say(id => changed(id, [row({ key: 'a', created: 1, state: 'Failed' })]));
    expect(keys()).toEqual(['c', 'a']);
    expect(store.rows[1]?.state).toBe('Failed');
  });

  it('keeps the object of a row that did not change, also over a reconnect', () => {
    say(id => all(id, [row({ key: 'a' }), row({ key: 'b' })]));
    const before = new Map(store.rows.map(each => [each.key, each]));
    live.reconnect();
    FakeSocket.last.accept();
    const next = [row({ key: 'a', elapsed: 999 }), row({ key: 'b', reason: 'new' })];
    say(id => all(id, next));
    const after = new Map(store.rows.map(each => [each.key, each]));
    expect(after.get('a')).toBe(before.get('a'));
    expect(after.get('b')?.reason).toBe('new');
    expect(store.rows).toHaveLength(2);
  });

  it('tells once that a job has ended, also when that happened without a connection', () => {
    const seen: string[] = [];
    store.onEnded(({ key }) => seen.push(key));
    say(id => all(id, [row({ key: 'a' }), row({ key: 'b' }), ended({ key: 'old' })]));
    say(id => changed(id, [ended({ key: 'a' })]));
    say(id => changed(id, [ended({ key: 'a', reason: 'more' })]));
    live.reconnect();
    FakeSocket.last.accept();
    say(id => all(id, [ended({ key: 'a' }), ended({ key: 'b', state: 'Failed' })]));
    say(id => all(id, [ended({ key: 'a' }), ended({ key: 'b', state: 'Failed' })]));
    expect(seen).toEqual(['a', 'b']);
  });

  it('tells of a job that began and ended between two changes, but not of an old one', () => {
    const seen: string[] = [];
    store.onEnded(({ key }) => seen.push(key));
    const now = NOW + 86400; // of the server: the page's clock may be another
    const soon = (key: string) => ended({ key, created: now, ended: now + 0.2 });
    say(id => all(id, [soon('before the page')]));
    say(id => changed(id, [{ ...soon('a'), created: now + 1 }], [], now + 2));
    const attached = ended({ key: 'attached', created: now + 2, ended: now - 3600 });
    say(id => changed(id, [attached], [], now + 3));
    say(id => changed(id, [{ ...soon('a'), created: now + 1, reason: 'more' }]));
    expect(seen).toEqual(['a']);
  });

  it('does not take a new job of the same name for the old one', () => {
    const seen: Row[] = [];
    store.onEnded(each => seen.push(each));
    say(id => all(id, [row({ key: 'a', uid: '1' })]));
    say(id => changed(id, [ended({ key: 'a', uid: '2' })]));
    expect(seen).toEqual([]);
  });

  it('keeps the words of an error until there is a list', () => {
    say(id => ({ id, kind: 'error', message: 'The disk is gone.', hint: null }));
    expect(store.error?.message).toBe('The disk is gone.');
    say(id => all(id, []));
    expect(store.error).toBeNull();
  });

  it('stops when it is disposed of', () => {
    const listener = vi.fn();
    store.subscribe(listener);
    store.dispose();
    expect(FakeSocket.last.closed).toBe(true);
    listener.mockClear();
    live.reconnect();
    expect(listener).not.toHaveBeenCalled();
  });
});

describe('the store of one job', () => {
  it('holds the detail, and its events once', () => {
    const store = new JobStore(live, 'mnist-4');
    FakeSocket.last.accept();
    expect(FakeSocket.last.sent[0]).toMatchObject({ topic: 'job', key: 'mnist-4' });
    const event = (message: string) => ({ time: NOW, kind: 'note', rank: null, message });
    const texts = () => store.events.map(({ message }) => message);
    say(id => ({ id, kind: 'job', detail: detail() }));
    say(id => ({ id, kind: 'events', from: 0, events: [event('a'), event('b')] }));
    say(id => ({ id, kind: 'events', from: 2, events: [event('c')] }));
    expect(texts()).toEqual(['a', 'b', 'c']);
    live.reconnect();
    FakeSocket.last.accept();
    say(id => ({ id, kind: 'events', from: 0, events: [event('a'), event('b'), event('c')] }));
    expect(texts()).toEqual(['a', 'b', 'c']);
    expect(store.detail?.code).toBe('print(1)\n');
    say(id => ({ id, kind: 'events', from: 0, events: [] })); // another job of this name
    expect(texts()).toEqual([]);
    store.dispose();
  });
});
