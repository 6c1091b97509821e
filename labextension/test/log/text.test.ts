import { describe, expect, it, vi } from 'vitest';

import { parseRanks } from '../../src/core/base/ranks';
import { pieces, textOf } from '../../src/core/log/ansi';
import { Expression, mark, textMarker } from '../../src/core/log/highlight';
import { toggled } from '../../src/core/log/rankfilter';
import { Scroll } from '../../src/core/log/scroll';
import { readTime, timeOf } from '../../src/core/log/times';

const ESC = '\x1b';

describe('what a program printed', () => {
  it('has the 16 colours and the styles as classes', () => {
    expect(pieces(`a ${ESC}[1;31mred${ESC}[0m b`)).toEqual([
      { text: 'a ', classes: '' },
      { text: 'red', classes: 'jaxtrain-ansi-bold jaxtrain-ansi-red' },
      { text: ' b', classes: '' }
    ]);
    expect(pieces(`${ESC}[92;44mx`)).toEqual([
      { text: 'x', classes: 'jaxtrain-ansi-bright-green jaxtrain-ansi-blue-bg' }
    ]);
  });

  it('has other colours as values', () => {
    expect(pieces(`${ESC}[38;5;208mx`)).toMatchObject([{ color: 'rgb(255, 135, 0)' }]);
    expect(pieces(`${ESC}[48;5;240mx`)).toMatchObject([{ background: 'rgb(88, 88, 88)' }]);
    expect(pieces(`${ESC}[38;2;1;2;3mx`)).toMatchObject([{ color: 'rgb(1, 2, 3)' }]);
    expect(pieces(`${ESC}[38:2::1:2:3mx`)).toMatchObject([{ color: 'rgb(1, 2, 3)' }]);
  });

  it('can do nothing else', () => {
    for (const harmful of [
      `a${ESC}[2Jb`,
      `a${ESC}[10;5Hb`,
      `a${ESC}]0;title\x07b`,
      `a${ESC}]8;;http://evil${ESC}\\b`,
      `a${ESC}Pdevice${ESC}\\b`,
      `a${ESC}(Bb`,
      `a${ESC}[?25lb`,
      `a${ESC}[>4;1mb`,
      'a\x08\x07\u202eb\u2066',
      `ab${ESC}`,
      `ab${ESC}[`,
      `ab${ESC}[38;5`,
      `${ESC}[38;5;999mab`,
      `${ESC}[38;2;;;mab`
    ]) {
      expect(textOf(harmful)).toBe('ab');
    }
    expect(textOf('<b>&amp;</b>')).toBe('<b>&amp;</b>');
  });

  it('is what is left after carriage returns', () => {
    expect(textOf(' 10%\r 50%\r100%\r')).toBe('100%');
    expect(['\r', '\r\r', 'a\r\r', '\ra', ''].map(textOf)).toEqual(['', '', 'a', 'a', '']);
  });

  it('takes no longer for a line that is made to take long', () => {
    const MANY = 1 << 18;
    for (const part of ['\r', `${ESC}[`, `${ESC}]`, `${ESC}P`, '38:2:', ' ', `${ESC}[38:2:`]) {
      const began = performance.now();
      textOf(`${part.repeat(MANY / part.length)}x`);
      expect(performance.now() - began, JSON.stringify(part)).toBeLessThan(5000);
    }
  });
});

describe('matches', () => {
  it('are found as words', () => {
    const find = (pattern: string, text: string, change = {}) =>
      textMarker({ pattern, regex: false, case: false, ...change }).find(text);
    expect(find('a.b', 'xA.b a+b')).toEqual([[1, 4]]);
    expect(find('A', 'aA', { case: true })).toEqual([[1, 2]]);
    expect(find('a', 'a'.repeat(5000))).toHaveLength(50);
  });

  it('of an expression are asked for, with what is drawn last, and kept', async () => {
    const asked: string[][] = [];
    const notify = vi.fn();
    const expression = new Expression(texts => {
      asked.push(texts);
      return Promise.resolve(texts.map(() => [[0, 1] as const]));
    }, notify);
    const { marker } = expression;
    expect(['a', 'b', '', 'b'].map(text => marker.find(text))).toEqual([[], [], [], []]);
    await vi.waitFor(() => expect(notify).toHaveBeenCalledTimes(1));
    expect(asked).toEqual([['b', 'a']]);
    expect(expression.marker).not.toBe(marker);
    expect(expression.marker.find('a')).toEqual([[0, 1]]);
    const long = (letter: string) => letter.repeat(5000);
    for (const letter of 'cdefghijkl') {
      expression.marker.find(long(letter));
    }
    await vi.waitFor(() => expect(notify).toHaveBeenCalledTimes(2));
    expect(asked).toHaveLength(2);
    expect(asked[1]?.map(text => text[0]).join('')).toBe('lkjihgf');
    expect(asked[1]?.every(text => text.length === 4096)).toBe(true);
  });

  it('of what the server refuses are not asked for again', async () => {
    const ask = vi.fn(() => Promise.reject(new Error('no')));
    const expression = new Expression(ask, () => undefined);
    expression.marker.find('a');
    await vi.waitFor(() => expect(ask).toHaveBeenCalledTimes(1));
    await Promise.resolve();
    expect(expression.marker.find('b')).toEqual([]);
    await Promise.resolve();
    expect(ask).toHaveBeenCalledTimes(1);
  });

  it('cut the pieces that they lie in', () => {
    const found = mark(
      [
        { text: 'abc', classes: 'x' },
        { text: 'def', classes: '' }
      ],
      [[2, 4]]
    );
    expect(found.map(({ text, classes, marked }) => [text, classes, marked])).toEqual([
      ['ab', 'x', false],
      ['c', 'x', true],
      ['d', '', true],
      ['ef', '', false]
    ]);
  });
});

describe('scrolling', () => {
  it('is by pixels where the browser can', () => {
    const scroll = new Scroll();
    scroll.rows = 1000;
    scroll.view = 180;
    scroll.to(100);
    expect(scroll.bar).toBe(1800);
    expect(scroll.moved(1800.4)).toBe(false);
    expect(scroll.moved(1809)).toBe(true);
    expect(scroll.top).toBe(100.5);
    expect(scroll.seen).toEqual([100, 111]);
    scroll.show(105);
    expect(scroll.top).toBe(100.5);
    scroll.show(99);
    expect(scroll.top).toBe(99);
    scroll.show(109);
    expect(scroll.top).toBe(100);
    scroll.toEnd();
    expect(scroll.seen).toEqual([990, 1000]);
  });

  it('is in proportion in a log that is too long, with short moves by pixels', () => {
    const scroll = new Scroll();
    scroll.rows = 10_000_000;
    scroll.view = 180;
    expect(scroll.height).toBeLessThan(17_000_000);
    scroll.to(5_000_000);
    const { bar } = scroll;
    scroll.moved(bar + 36);
    expect(scroll.top).toBe(5_000_002);
    scroll.moved(0);
    expect(scroll.top).toBe(0);
    scroll.moved(scroll.height - scroll.view);
    expect(scroll.top).toBe(scroll.most);
    scroll.moved(scroll.height / 2);
    expect(scroll.top / scroll.most).toBeCloseTo(0.5, 3);
    expect(Math.abs(scroll.right - scroll.bar)).toBeLessThan(1);
  });
});

describe('times', () => {
  const began = new Date(2026, 0, 15, 22, 0, 0).getTime() / 1000;

  it('are of day, or since the start', () => {
    expect(timeOf(began + 65, 'clock', began)).toBe('22:01:05');
    expect(timeOf(began + 3665, 'since', began)).toBe('+01:01:05');
    expect(timeOf(began, 'off', began)).toBe('');
    expect(timeOf(null, 'clock', began)).toBe(' '.repeat(8));
  });

  it('can be typed', () => {
    expect(readTime('22:01', began)).toBe(began + 60);
    expect(readTime('1:00:05', began)).toBe(began + 3 * 3600 + 5);
    expect(readTime('+90', began)).toBe(began + 90);
    expect(readTime('+1:30', began)).toBe(began + 90);
    const day = (month: number, date: number, hour: number) =>
      new Date(2026, month - 1, date, hour).getTime() / 1000;
    expect(readTime('2026-11-23 14:00', began)).toBe(day(11, 23, 14));
    expect(readTime('2026-11-23T14:00:00', began)).toBe(day(11, 23, 14));
    expect(readTime('2026-3-1', began)).toBe(day(3, 1, 0));
    for (const none of ['soon', '2026-02-30', '2026-13-01 1:00', '2026-11-23 +5', '2026-11-23 x']) {
      expect(readTime(none, began)).toBeNull();
    }
    expect(readTime('25:00', began)).toBeNull();
  });
});

describe('ranks', () => {
  const sources = [0, 1, 2, 3, 'init'];

  it('are chosen one by one, and none is all', () => {
    expect(toggled(null, 2)).toEqual([2]);
    expect(toggled([2], 1)).toEqual([1, 2]);
    expect(toggled([2], 2)).toBeNull();
    expect(toggled([2], 'init')).toEqual(['init']);
    expect(toggled(['init'], 2)).toEqual([2]);
  });

  it('can be typed', () => {
    expect(parseRanks('2-9, 0', sources)).toEqual([0, 2, 3]);
    expect(parseRanks('all', sources)).toBeNull();
    expect(parseRanks('', sources)).toBeNull();
  });
});
