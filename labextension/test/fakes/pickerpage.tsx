import { render } from 'preact';
import { act } from 'preact/test-utils';
import { afterEach, beforeEach, vi } from 'vitest';

import { Picker } from '../../src/core/picker/view';
import { fakeHost } from './make';
import { setUp, type Setup } from './picker';

export const CLUSTER = '%%jaxtrain --nodes=2 --runtime=jax-cpu\nprint(1)\n';

export let root: HTMLElement;
export let setup: Setup;
export let host: ReturnType<typeof fakeHost>;

/** Make a place for the picker before each test, with a fake clock. */
export function usePicker(): void {
  beforeEach(() => {
    vi.useFakeTimers();
    host = fakeHost();
    root = document.body.appendChild(document.createElement('div'));
  });

  afterEach(() => {
    void act(() => render(null, root));
    root.remove();
    setup.store.dispose();
    vi.useRealTimers();
  });
}

export const wait = (time = 200) =>
  act(() => vi.advanceTimersByTimeAsync(time).then(() => undefined));

export async function show(source: string | null, prepare: (setup: Setup) => void = () => {}) {
  setup = setUp(source);
  prepare(setup);
  void act(() => {
    render(<Picker store={setup.store} host={host} />, root);
    setup.store.show(true);
  });
  await wait();
}

export function find(selector: string): HTMLElement {
  const element = root.querySelector<HTMLElement>(selector);
  if (!element) {
    throw new Error(`there is no ${selector} in ${root.textContent}`);
  }
  return element;
}

export const all = (selector: string) => [...root.querySelectorAll<HTMLElement>(selector)];
export const source = () => setup.cells.cell?.source;

export const input = (selector: string) => find(selector) as HTMLInputElement;

export function field(label: string): HTMLInputElement {
  const found = all('label').find(each => each.textContent === label);
  return input(`[id="${found?.getAttribute('for') ?? ''}"]`);
}

export async function enter(
  field: HTMLInputElement | HTMLSelectElement,
  text: string,
  event = 'input'
) {
  await act(() => {
    field.value = text;
    field.dispatchEvent(new Event(event, { bubbles: true }));
  });
  await wait();
}

export async function click(element: HTMLElement | undefined) {
  await act(() => element?.click());
  await wait();
}

export async function press(key: string) {
  await act(() => {
    const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true });
    document.activeElement?.dispatchEvent(event);
  });
  await wait();
}

export const button = (text: string) => all('button').find(each => each.textContent === text);
