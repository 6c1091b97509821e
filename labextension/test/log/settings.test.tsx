import { describe, expect, it, vi } from 'vitest';

import { english } from '../../src/core/base/translator';
import { handleKey, keyHelp } from '../../src/core/log/keys';
import { Reader } from '../../src/core/log/reader';
import { DEFAULTS, restoreView, saveView } from '../../src/core/log/settings';
import {
  button,
  click,
  current,
  doing,
  find,
  input,
  press,
  print,
  reader,
  server,
  status,
  useLog
} from '../fakes/logpage';
import { many } from '../fakes/logserver';

useLog();

const link = vi.fn((key: string, position: number) => `http://here/${key}/${position}`);

function storage() {
  const texts = new Map<string, string>();
  return {
    setItem: (name: string, text: string) => void texts.set(name, text),
    getItem: (name: string) => texts.get(name) ?? null
  };
}

describe('how one looks at a log', () => {
  it('is kept for the next time', async () => {
    const kept = storage();
    await print(many(300));
    const stop = saveView(reader, kept, () => DEFAULTS);
    const pattern = { pattern: 'line 2', regex: true, case: false };
    await doing(() => {
      reader.show({ sources: [1], exclude: pattern });
      reader.nextTimes();
      reader.set({ pattern });
    });
    await print(many(300));
    await doing(() => reader.goTo(7));
    stop();
    const again = new Reader(server.store, english);
    server.store.choose({ sources: null, exclude: null });
    restoreView(again, kept, DEFAULTS);
    expect(server.store.choice).toMatchObject({ sources: [1], exclude: pattern, include: null });
    expect([again.times, again.at, again.following]).toEqual(['since', 7, false]);
    expect([again.pattern, server.store.search?.pattern]).toEqual([pattern, pattern]);
    again.dispose();
  });

  it('is at the end again for a later job of that name', async () => {
    const kept = storage();
    await print(many(300));
    const stop = saveView(reader, kept, () => DEFAULTS);
    await doing(() => reader.goTo(7));
    stop();
    for (const [later, at, following] of [
      [0, 7, false],
      [50, 299, true]
    ] as const) {
      server.began += later;
      server.store.choose({});
      const again = new Reader(server.store, english);
      restoreView(again, kept, DEFAULTS);
      await print(many(300));
      expect([again.at, again.following]).toEqual([at, following]);
      again.dispose();
    }
  });

  it('is as usual where nothing was kept, or something that makes no sense', async () => {
    await print(many(3));
    for (const text of [
      '',
      '{',
      '[1]',
      '{"mnist-4": {"times": 3, "sources": "x", "pattern": 1}}'
    ]) {
      const again = new Reader(server.store, english);
      restoreView(again, { getItem: () => text }, { times: 'off', wrap: false, raw: true });
      expect([again.times, again.wrap, again.following]).toEqual(['off', false, true]);
      expect(server.store.choice).toMatchObject({ sources: null, raw: true });
      again.dispose();
    }
  });

  it('is kept apart for each log, and only where it is not as usual', async () => {
    const kept = storage();
    await print(many(3));
    const stop = saveView(reader, kept, () => DEFAULTS);
    await doing(() => reader.nextTimes());
    stop();
    expect(JSON.parse(kept.getItem('logs') ?? '')).toEqual({ 'mnist-4': { times: 'since' } });
  });
});

describe('going to a place', () => {
  it('is by the number of a line, or a time', async () => {
    await print(many(300));
    await press('g');
    const field = input('[placeholder^=line]');
    expect(document.activeElement).toBe(field);
    field.value = '1,50';
    field.value = '150';
    await press('Enter', field);
    expect(status()).toContain('line 150 of 300');
    expect(current()).toBe('line 149');
    await doing(() => reader.goToPlace('1,000'));
    expect(status()).toContain('line 300 of 300');
    await doing(() => reader.goToPlace('soon'));
    expect(find('footer').textContent).toContain('Enter a line number');
  });

  it('can be taken away as a link, where the page has links', async () => {
    await print(many(30));
    const actions = { search: vi.fn(), place: vi.fn(), copy: vi.fn(), link: vi.fn() };
    expect(handleKey('l', reader, actions)).toBe(true);
    expect(actions.link).toHaveBeenCalled();
    expect(handleKey('l', reader, { search: vi.fn(), place: vi.fn(), copy: vi.fn() })).toBe(false);
    await press('Home');
    await press('Enter');
    expect(button('Copy link')).toBeUndefined();
    expect(link).not.toHaveBeenCalled();
  });
});

describe('the help', () => {
  it('names every key that does something', async () => {
    await print(many(30));
    const named = keyHelp(english).flatMap(([keys]) => keys.split(' '));
    const signs: Record<string, string> = {
      '↓': 'ArrowDown',
      '↑': 'ArrowUp',
      '→': 'ArrowRight',
      '←': 'ArrowLeft',
      Space: ' '
    };
    const known = new Set(named.map(key => signs[key] ?? key));
    const letters = Array.from({ length: 94 }, (_, n) => String.fromCharCode(33 + n));
    const others = ['ArrowDown', 'ArrowUp', 'ArrowLeft', 'ArrowRight', 'Home', 'End', 'Insert'];
    const actions = { search: () => {}, place: () => {}, copy: () => {}, link: () => {} };
    for (const key of [...letters, ...others, 'PageUp', 'PageDown', 'Enter', ' ']) {
      await doing(() => {
        expect([key, handleKey(key, reader, actions)]).toEqual([key, known.has(key)]);
      });
    }
    await click('Keys');
  });
});
