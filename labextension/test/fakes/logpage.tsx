import { render } from 'preact';
import { act } from 'preact/test-utils';
import { afterEach, beforeEach, vi } from 'vitest';

import { english } from '../../src/core/base/translator';
import { Reader } from '../../src/core/log/reader';
import { LogView } from '../../src/core/log/view';
import { LogServer } from './logserver';
import { fakeHost, NOW } from './make';

export let server: LogServer;
export let reader: Reader;
export let root: HTMLElement;
export const save = vi.fn();
export const copy = vi.fn<(text: string) => void>();

let begin = 0;

/** Show a log before each test, with a fake server and a fake clock. */
export function useLog(): void {
  beforeEach(() => {
    vi.useFakeTimers({ now: NOW * 1000 });
    vi.advanceTimersByTime((begin += 60_000)); // later than keys of earlier tests
    server = new LogServer();
    reader = new Reader(server.store, english);
    root = document.body.appendChild(document.createElement('div'));
    void act(() => render(<LogView reader={reader} host={{ ...fakeHost(), save, copy }} />, root));
  });

  afterEach(() => {
    void act(() => render(null, root));
    root.remove();
    reader.dispose();
    server.store.dispose();
    server.live.dispose();
    vi.useRealTimers();
  });
}

export async function doing(work: () => unknown): Promise<void> {
  await act(async () => {
    work();
    await server.settle();
    await server.settle();
    await vi.advanceTimersByTimeAsync(150); // a log that grows is drawn now and then
  });
}

export const print = (texts: string[], change = {}) => doing(() => server.print(texts, change));

export function find(selector: string): HTMLElement {
  const element = root.querySelector<HTMLElement>(selector);
  if (!element) {
    throw new Error(`there is no ${selector} in ${root.textContent}`);
  }
  return element;
}

export const list = () => find('[role=listbox]');
export const texts = () =>
  [...root.querySelectorAll('.jaxtrain-log-text')].map(each => each.textContent);
export const current = () => find('[aria-selected=true] .jaxtrain-log-text').textContent;
export const status = () => find('footer span').textContent;
export const button = (name: string) =>
  [...root.querySelectorAll('button')].find(
    each => each.getAttribute('aria-label') === name || each.textContent.includes(name)
  );
export const click = (name: string) => doing(() => button(name)?.click());
export const press = (key: string, target: Element = list(), more: KeyboardEventInit = {}) =>
  doing(() => target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, ...more })));
export const scrollTo = (top: number) =>
  doing(() => {
    list().scrollTop = top;
    list().dispatchEvent(new Event('scroll'));
  });
export const wheel = (deltaY: number) =>
  doing(() => list().dispatchEvent(new WheelEvent('wheel', { deltaY, bubbles: true })));

export function reply(op: string, message: object): Promise<void> {
  return doing(() => {
    server.say({ id: server.sentOf(op).at(-1)?.['id'], ...message });
  });
}

export const input = (selector: string) => find(selector) as HTMLInputElement;
