import { describe, expect, it } from 'vitest';

import { copy, doing, find, list, press, print, reader, root, useLog } from '../fakes/logpage';
import { many } from '../fakes/logserver';

useLog();

const row = (index: number) => find(`[data-index="${index}"]`);
const mouse = (index: number, init: MouseEventInit = {}) =>
  doing(() => {
    for (const name of ['pointerdown', 'mousedown', 'mouseup', 'click']) {
      const event = new MouseEvent(name, { bubbles: true, cancelable: true, ...init });
      row(index).querySelector('.jaxtrain-log-text')?.dispatchEvent(event);
    }
  });
const selectionText = async () => {
  await press('c', list(), { ctrlKey: true });
  return copy.mock.calls.at(-1)?.[0];
};
const lines = (first: number, last: number) =>
  many(last + 1)
    .slice(first)
    .join('\n');

describe('lines chosen by the mouse', () => {
  it('are those from a click to one with Shift, however far away', async () => {
    await print(many(300));
    await doing(() => reader.goTo(5));
    await mouse(4);
    await doing(() => reader.goTo(120));
    await doing(() => reader.goTo(4)); // where the click was
    await doing(() => reader.scrolled(100 * 18));
    const [first] = root.querySelectorAll<HTMLElement>('[data-index]');
    const there = Number(first?.dataset['index']) + 3;
    expect(there).toBeGreaterThan(80);
    await mouse(there, { shiftKey: true });
    expect(await selectionText()).toBe(lines(4, there));
    await mouse(there + 1);
    expect(await selectionText()).toBe(`line ${there + 1}`);
  });
});

describe('letters chosen by the mouse', () => {
  it('are whole lines where their begin has been scrolled away', async () => {
    await print(many(300));
    await doing(() => reader.goTo(0));
    await doing(() => row(2).dispatchEvent(new MouseEvent('mousedown', { bubbles: true })));
    await doing(() => reader.scrolled(100 * 18));
    const [, end] = root.querySelectorAll<HTMLElement>('[data-index]');
    expect(root.querySelector('[data-index="2"]')).toBeNull();
    window.getSelection()?.selectAllChildren(end as HTMLElement);
    const data = new Map<string, string>();
    const event = Object.assign(new Event('copy', { bubbles: true, cancelable: true }), {
      clipboardData: { setData: (type: string, text: string) => data.set(type, text) }
    });
    await doing(() => list().dispatchEvent(event));
    expect(data.get('text/plain')).toBe(lines(2, Number(end?.dataset['index'])));
    expect(event.defaultPrevented).toBe(true);
  });
});
