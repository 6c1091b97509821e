import { render } from 'preact';
import { act } from 'preact/test-utils';
import { afterEach, beforeEach, vi } from 'vitest';

import { Live } from '../../src/core/base/live';
import type { Message, Problem } from '../../src/core/base/protocol';
import { JobsStore } from '../../src/core/jobs/store';
import { Jobs } from '../../src/core/jobs/view';
import { all, fakeHost, NOW, type row } from './make';
import { FakeSocket } from './socket';

export function doing(work: () => unknown): void {
  void act(() => {
    work();
  });
}

export let root: HTMLElement;
let live: Live;
let store: JobsStore;
export let host: ReturnType<typeof fakeHost>;
let problem: Problem | null;

/** Show the panel before each test, with a fake server and a fake clock. */
export function usePanel(): void {
  beforeEach(() => {
    vi.useFakeTimers({ now: NOW * 1000 });
    FakeSocket.all = [];
    problem = null;
    live = new Live({
      url: () => 'ws://server',
      connect: url => new FakeSocket(url),
      probe: () => Promise.resolve(problem)
    });
    host = fakeHost();
    root = document.body.appendChild(document.createElement('div'));
    store = new JobsStore(live);
    doing(() => render(<Jobs store={store} host={host} />, root));
  });

  afterEach(() => {
    doing(() => render(null, root));
    root.remove();
    live.dispose();
    vi.useRealTimers();
  });
}

/** Show the panel anew, as after a reload. */
export function again(): void {
  doing(() => render(null, root));
  doing(() => render(<Jobs store={store} host={host} />, root));
}

export function say(make: (id: number) => Message): void {
  doing(() => FakeSocket.last.say(make(Number(FakeSocket.last.sent[0]?.['id']))));
}

export function show(...rows: ReturnType<typeof row>[]): void {
  doing(() => FakeSocket.last.accept());
  say(id => all(id, rows));
}

export function find(selector: string): HTMLElement {
  const element = root.querySelector<HTMLElement>(selector);
  if (!element) {
    throw new Error(`there is no ${selector} in ${root.textContent}`);
  }
  return element;
}

export const rowsShown = () => [...root.querySelectorAll<HTMLElement>('[role=row]')];
export const keys = () => rowsShown().map(element => element.dataset['key']);

export function type(text: string): void {
  const input = find('input') as HTMLInputElement;
  input.value = text;
  doing(() => input.dispatchEvent(new Event('input', { bubbles: true })));
}

export function press(key: string, target = document.activeElement): void {
  doing(() => target?.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true })));
}

export function click(selector: string): void {
  doing(() => find(selector).click());
}

export async function lose(why: Problem | null): Promise<void> {
  problem = why;
  await act(async () => {
    FakeSocket.last.drop();
    await vi.advanceTimersByTimeAsync(0);
  });
}
