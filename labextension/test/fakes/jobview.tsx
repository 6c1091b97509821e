import { render } from 'preact';
import { act } from 'preact/test-utils';
import { afterEach, beforeEach } from 'vitest';

import type { Host } from '../../src/core/base/host';
import { Live } from '../../src/core/base/live';
import type { Detail, JobState } from '../../src/core/base/protocol';
import { JobStore } from '../../src/core/job/store';
import { Job } from '../../src/core/job/view';
import { detail, fakeHost } from './make';
import { FakeSocket } from './socket';

export let root: HTMLElement;
export let host: ReturnType<typeof fakeHost>;
let live: Live;
let store: JobStore;

/** Show a job before each test, with a fake server; `more` is what its host has besides. */
export function useJob(more: () => Partial<Host> = () => ({})): void {
  beforeEach(() => {
    FakeSocket.all = [];
    live = new Live({ url: () => 'ws://server', connect: url => new FakeSocket(url) });
    host = Object.assign(fakeHost(), more());
    store = new JobStore(live, 'mnist-4');
    root = document.body.appendChild(document.createElement('div'));
    doing(() => {
      render(<Job store={store} host={host} />, root);
      FakeSocket.last.accept();
    });
  });

  afterEach(() => {
    doing(() => render(null, root));
    store.dispose();
    root.remove();
    live.dispose();
  });
}

export function doing(work: () => unknown): void {
  void act(() => {
    work();
  });
}

/** Let time pass that promises and timers need. */
export async function settle(ms = 0): Promise<void> {
  await act(async () => {
    await new Promise(resolve => setTimeout(resolve, ms));
  });
}

/** Say something about a job; `nth` counts what the page has opened. */
export function say(message: object, nth = 0): void {
  const opened = FakeSocket.last.sent.filter(({ op }) => op === 'open');
  doing(() => FakeSocket.last.say({ id: opened[nth]?.['id'], ...message }));
}

export function show(change: Partial<Detail> = {}, state: Partial<JobState> = {}): void {
  const full = detail(change);
  say({ kind: 'job', detail: { ...full, state: { ...full.state, ...state } } });
}

export const all = (selector: string) => [...root.querySelectorAll<HTMLElement>(selector)];
export const texts = (selector: string) => all(selector).map(element => element.textContent);

export function find(selector: string): HTMLElement {
  const element = root.querySelector<HTMLElement>(selector);
  if (!element) {
    throw new Error(`there is no ${selector} in ${root.textContent}`);
  }
  return element;
}

/** Return the button with this text or name. */
export function button(name: string): HTMLButtonElement {
  const found = all('button').find(
    each => each.textContent.trim() === name || each.getAttribute('aria-label') === name
  );
  if (!(found instanceof HTMLButtonElement)) {
    throw new Error(`there is no button ${name}`);
  }
  return found;
}

export function press(key: string, target: Element | null = document.activeElement): void {
  doing(() => target?.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true })));
}
