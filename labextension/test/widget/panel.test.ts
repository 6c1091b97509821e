import { act } from 'preact/test-utils';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import panel from '../../src/widget/panel';
import type { Row } from '../../src/core/base/protocol';
import { emptyLog } from '../fakes/logserver';
import { all, detail, ended, row } from '../fakes/make';
import { FakeModel } from '../fakes/model';
import { FakeServer } from '../fakes/picker';

type Told = Record<string, unknown> & { say?: { op: string; id: number; topic?: string } };

/** A kernel that knows two jobs, and answers requests as the server does. */
class FakeKernel extends FakeModel {
  server = new FakeServer();
  asked: string[] = [];
  refuses: Record<string, object> = {};
  rows: Row[] = [row({ actions: ['cancel', 'suspend'] }), ended({ key: 'old' })];

  override send(message: unknown): void {
    super.send(message);
    const { page, say, ask, method, path, body } = message as Told;
    if (say?.op === 'open') {
      const told =
        say.topic === 'jobs'
          ? [all(say.id, this.rows)]
          : say.topic === 'job'
            ? [{ id: say.id, kind: 'job', detail: detail() }]
            : emptyLog(say.id);
      queueMicrotask(() => this.say({ page, hear: told }));
    } else if (ask !== undefined) {
      this.asked.push(`${String(method)} ${String(path)}`);
      void this.#answer(page, ask, String(path), body);
    }
  }

  async #answer(page: unknown, ask: unknown, path: string, body: unknown): Promise<void> {
    const refused = this.refuses[path];
    if (refused) {
      this.say({ page, answer: ask, status: 501, body: refused });
      return;
    }
    if (path === 'next-cell' || path.startsWith('jobs/')) {
      this.say({
        page,
        answer: ask,
        status: 200,
        body: path === 'next-cell' ? { when: 'It comes next.' } : {}
      });
      return;
    }
    const response = await this.server.api.post<object>(path, body ?? {});
    this.say({ page, answer: ask, status: 200, body: response });
  }
}

let el: HTMLElement;
let kernel: FakeKernel;
let erase: () => void;

const wait = (time = 300) => act(() => vi.advanceTimersByTimeAsync(time).then(() => undefined));

beforeEach(async () => {
  vi.useFakeTimers();
  el = document.body.appendChild(document.createElement('div'));
  kernel = new FakeKernel();
  await act(() => {
    erase = panel.render({ model: kernel, el });
  });
  await wait();
});

afterEach(() => {
  void act(() => erase());
  el.remove();
  vi.useRealTimers();
});

const buttons = () => [...el.querySelectorAll('button')];
const named = (name: string) =>
  buttons().find(each => each.textContent === name || each.getAttribute('aria-label') === name);

async function press(name: string): Promise<void> {
  const found = named(name);
  if (!found) {
    throw new Error(
      `there is no button ${name} in ${buttons()
        .map(each => each.textContent)
        .join()}`
    );
  }
  await act(() => {
    found.focus();
    found.click();
  });
  await wait();
}

const place = () => el.querySelector<HTMLElement>('.jaxtrain-panel')?.dataset['place'];

describe('the panel', () => {
  it('shows picker and jobs, over the comm alone', () => {
    expect(el.querySelector('.jaxtrain-picker')?.textContent).toContain('this machine');
    expect(el.querySelectorAll('[role=row]')).toHaveLength(2);
  });

  it('opens a job and its log in place, and goes back the way it came', async () => {
    await act(() => el.querySelector<HTMLElement>('[data-key=mnist-4] .jaxtrain-name')?.click());
    await wait();
    expect(place()).toBe('job');
    expect(el.querySelector('h2')?.textContent).toBe('mnist-4');
    await press('Log');
    expect(place()).toBe('log');
    expect(el.querySelector('.jaxtrain-log')).not.toBeNull();
    await press('← Back');
    expect(place()).toBe('job');
    await press('← Back');
    expect(place()).toBe('home');
    expect(el.querySelectorAll('[role=row]')).toHaveLength(2);
  });

  it('acts by requests, and asks before it cancels', async () => {
    await press('Actions for mnist-4');
    const items = [...el.querySelectorAll('[role=menuitem]')].map(each => each.textContent);
    expect(items).toEqual(['Open', 'Open Log', 'Copy Name', 'Cancel…', 'Suspend']);
    expect(document.activeElement?.textContent).toBe('Open');
    await press('Cancel…');
    expect(el.querySelector('[role=menu]')).toBeNull();
    expect(kernel.asked).not.toContain('POST jobs/mnist-4/cancel');
    await press('Cancel Job');
    expect(kernel.asked).toContain('POST jobs/mnist-4/cancel');
    expect(document.activeElement).toBe(named('Actions for mnist-4')); // as before the question
  });

  it('says what could not be done', async () => {
    kernel.refuses['jobs/mnist-4/suspend'] = { message: 'It is over.', hint: null };
    await press('Actions for mnist-4');
    await press('Suspend');
    expect(el.querySelector('[role=alert]')?.textContent).toContain('It is over.');
    await press('Close');
    expect(el.querySelector('[role=alert]')).toBeNull();
  });

  it('moves in its menu by arrows, and closes it by Escape', async () => {
    await press('Actions for mnist-4');
    const key = (name: string) =>
      act(() => {
        const event = new KeyboardEvent('keydown', { key: name, bubbles: true });
        document.activeElement?.dispatchEvent(event);
      });
    await key('ArrowDown');
    expect(document.activeElement?.textContent).toBe('Open Log');
    await key('ArrowUp');
    await key('ArrowUp');
    expect(document.activeElement?.textContent).toBe('Suspend');
    await key('Escape');
    expect(el.querySelector('[role=menu]')).toBeNull();
    expect(document.activeElement).toBe(named('Actions for mnist-4'));
  });

  it('puts the line into the next cell, as it cannot know the active one', async () => {
    const nodes = [...el.querySelectorAll('label')].find(each => each.textContent === 'Nodes');
    const field = el.querySelector<HTMLInputElement>(`[id="${nodes?.htmlFor ?? ''}"]`);
    await act(() => {
      if (field) {
        field.value = '4';
        field.dispatchEvent(new Event('input', { bubbles: true }));
      }
    });
    await press('Insert into the next cell');
    const sent = kernel.sent.find(({ path }) => path === 'next-cell');
    expect(sent?.['body']).toEqual({ source: '%%jaxtrain --nodes=4\n' });
    expect(el.querySelector('.jaxtrain-standing')?.textContent).toBe('It comes next.');
  });

  it('offers to copy the line where no cell can be written', async () => {
    const body = { message: 'This page has no next cell.', hint: 'Copy the line.' };
    kernel.refuses['next-cell'] = body;
    await press('Insert into the next cell');
    expect(el.querySelector('.jaxtrain-foot [role=alert]')?.textContent).toContain(body.message);
    expect(el.querySelector('.jaxtrain-foot')?.textContent).toContain('Copy the line above');
    expect(named('Copy')).toBeDefined();
  });

  it('says when the kernel is silent', async () => {
    expect(el.textContent).not.toContain('does not answer');
    kernel.send = () => {};
    await act(() => el.querySelector<HTMLElement>('[data-key=mnist-4] .jaxtrain-name')?.click());
    await wait(6000);
    expect(el.textContent).toContain('The kernel is not responding');
  });

  it('tells the kernel when it goes', async () => {
    await act(() => erase());
    expect(kernel.sent.filter(({ end }) => end)).toHaveLength(2);
    expect(kernel.listeners).toBe(0);
    expect(el.childElementCount).toBe(0);
  });
});
