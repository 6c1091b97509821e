import { afterEach, beforeEach, describe, expect, it, vi, type MockInstance } from 'vitest';

import { pauseWhileHidden } from '../../src/lab/connection';
import { linkTo, readLink, withoutLink } from '../../src/lab/links';
import { claimNotification } from '../../src/lab/notifications';
import { ViewStorage } from '../../src/lab/storage';

let hidden = false;
let hasFocus: MockInstance<() => boolean>;

function hide(value: boolean): void {
  hidden = value;
  document.dispatchEvent(new Event('visibilitychange'));
}

beforeEach(() => {
  localStorage.clear();
  hidden = false;
  vi.spyOn(document, 'hidden', 'get').mockImplementation(() => hidden);
  hasFocus = vi.spyOn(document, 'hasFocus').mockReturnValue(true);
});

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

describe('the memory of views', () => {
  it('is kept with the workspace, and what is said before it is known counts', async () => {
    const save = vi.fn(() => Promise.resolve());
    const fetch = () => Promise.resolve({ a: 'old', b: 'old', c: 3 });
    const storage = new ViewStorage({ fetch, save });
    storage.setItem('a', 'new');
    await storage.ready;
    expect([storage.getItem('a'), storage.getItem('b'), storage.getItem('c')]).toEqual([
      'new',
      'old',
      null
    ]);
    storage.setItem('b', 'newer');
    expect(save).toHaveBeenLastCalledWith('jupyter-jax-trainer:views', { a: 'new', b: 'newer' });
    expect(localStorage).toHaveLength(0);
  });

  it('is in the browser where there are no workspaces', async () => {
    const storage = new ViewStorage(null);
    await storage.ready;
    storage.setItem('a', 'text');
    expect(new ViewStorage(null).getItem('a')).toBe('text');
    expect(storage.getItem('b')).toBeNull();
  });

  it('is empty where it cannot be read', async () => {
    const complaint = vi.spyOn(console, 'error').mockReturnValue();
    const fetch = () => Promise.reject(new Error('no'));
    const storage = new ViewStorage({ fetch, save: () => Promise.resolve() });
    await storage.ready;
    expect(storage.getItem('a')).toBeNull();
    expect(complaint).toHaveBeenCalled();
  });
});

describe('news', () => {
  it('are told by one page, once', async () => {
    let last: Promise<unknown> = Promise.resolve();
    const request = vi.fn((_: string, work: () => boolean) => {
      const mine = last.then(work);
      last = mine;
      return mine;
    });
    vi.stubGlobal('navigator', { locks: { request } });
    expect(
      await Promise.all([claimNotification('a'), claimNotification('a'), claimNotification('b')])
    ).toEqual([true, false, true]);
    expect(await claimNotification('a')).toBe(false);
    expect(request).toHaveBeenCalledTimes(4);
  });

  it('are told once without locks, too', async () => {
    vi.stubGlobal('navigator', {});
    expect(await claimNotification('a')).toBe(true);
    expect(await claimNotification('a')).toBe(false);
  });

  it('wait until the page is seen', async () => {
    hide(true);
    const told = claimNotification('a');
    await Promise.resolve();
    expect(localStorage).toHaveLength(0);
    hide(false);
    expect(await told).toBe(true);
  });

  it('are first for the page that is worked in', async () => {
    vi.useFakeTimers();
    hasFocus.mockReturnValueOnce(false);
    const beside = claimNotification('a');
    const worked = claimNotification('a');
    expect(await worked).toBe(true);
    await vi.runAllTimersAsync();
    expect(await beside).toBe(false);
  });
});

describe('what nobody can see', () => {
  it('rests after a minute, and wakes when it is seen', () => {
    vi.useFakeTimers();
    const what = { pause: vi.fn(), resume: vi.fn() };
    const stop = pauseWhileHidden(what);
    hide(true);
    vi.advanceTimersByTime(59_000);
    hide(false);
    hide(true);
    vi.advanceTimersByTime(59_000);
    expect(what.pause).not.toHaveBeenCalled();
    vi.advanceTimersByTime(2000);
    expect(what.pause).toHaveBeenCalledTimes(1);
    const before = what.resume.mock.calls.length;
    hide(false);
    expect(what.resume).toHaveBeenCalledTimes(before + 1);
    stop();
    hide(true);
    vi.advanceTimersByTime(120_000);
    expect(what.pause).toHaveBeenCalledTimes(1);
  });
});

describe('links to lines', () => {
  it('lead to the line, and hold no token', () => {
    const link = linkTo('http://here/user/ann/lab?token=secret#x', 'mnist 4&', 36, null);
    expect(link).toBe('http://here/user/ann/lab?jaxtrain-log=mnist+4%26&line=37');
    expect(readLink(new URL(link).search)).toEqual({
      key: 'mnist 4&',
      line: 36,
      container: null
    });
    const other = linkTo('http://here/lab', 'a', 0, 'setup');
    expect(readLink(new URL(other).search)).toEqual({ key: 'a', line: 0, container: 'setup' });
  });

  it('may name no line, or a wrong one', () => {
    expect(readLink('?jaxtrain-log=a')?.line).toBeNull();
    expect(readLink('?jaxtrain-log=a&line=-3')?.line).toBeNull();
    expect(readLink('?jaxtrain-log=a&line=x')?.line).toBeNull();
    expect(readLink('?line=3')).toBeNull();
  });

  it('are taken out of the address when they were followed', () => {
    expect(withoutLink('/lab/tree/a.ipynb?jaxtrain-log=a&line=3&x=1#y')).toBe(
      '/lab/tree/a.ipynb?x=1#y'
    );
  });
});
