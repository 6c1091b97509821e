import { describe, expect, it } from 'vitest';

import { Folds } from '../../src/core/log/folds';
import type { LogLine } from '../../src/core/log/pages';

describe('tracebacks', () => {
  const HEAD = 'Traceback (most recent call last):';
  const log = (texts: [number, string][]) => (index: number) => {
    const [source, text] = texts[index] ?? [];
    return text === undefined || source === undefined
      ? undefined
      : ({ position: index, source, time: null, text, bytes: text.length } satisfies LogLine);
  };
  const TEXTS: [number, string][] = [
    [0, 'step 1'],
    [1, HEAD],
    [1, '  File "a.py", line 1'],
    [1, '    boom()'],
    [1, "KeyError: 'labels'"],
    [1, ''],
    [1, 'During handling of the above exception, another exception occurred:'],
    [1, ''],
    [1, HEAD],
    [1, '  File "b.py", line 1'],
    [1, 'ValueError: b'],
    [1, 'step 2'],
    [0, HEAD],
    [0, '  File "c.py", line 1'],
    [1, 'step 3']
  ];

  it('are one row with those that they led to', () => {
    const folds = new Folds();
    expect(folds.update(0, TEXTS.length, log(TEXTS))).toBe(true);
    expect(folds.update(0, TEXTS.length, log(TEXTS))).toBe(false);
    expect(folds.at(1)).toEqual({
      start: 1,
      lines: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
      last: 'ValueError: b'
    });
    expect(folds.at(12)).toBeUndefined();
    expect(folds.hidden).toBe(9);
    expect([0, 1, 5, 10, 11, 14].map(index => folds.rowOf(index))).toEqual([0, 1, 1, 1, 2, 5]);
    expect([0, 1, 2, 5].map(row => folds.lineOf(row))).toEqual([0, 1, 11, 14]);
  });

  it('open and close, and open for a line that one looks for', () => {
    const folds = new Folds();
    folds.update(0, TEXTS.length, log(TEXTS));
    folds.toggle(1);
    expect(folds.hidden).toBe(0);
    folds.toggle(1);
    folds.reveal(5);
    expect(folds.isOpen(1)).toBe(true);
    expect(folds.rowOf(5)).toBe(5);
  });

  it('are found where a part of them came before', () => {
    const folds = new Folds();
    folds.update(0, 4, log(TEXTS.slice(0, 4)));
    expect(folds.at(1)?.lines).toHaveLength(3);
    folds.update(4, TEXTS.length, log(TEXTS));
    expect(folds.at(1)?.lines).toHaveLength(10);
  });

  it('stay as they are where their begin is not here any more', () => {
    const folds = new Folds();
    folds.update(0, TEXTS.length, log(TEXTS));
    const part = (index: number) => (index < 5 ? undefined : log(TEXTS)(index));
    expect(folds.update(5, TEXTS.length, part)).toBe(false);
    expect(folds.hidden).toBe(9);
  });

  it('keep rows and lines in step when there are many', () => {
    const folds = new Folds();
    const texts = Array.from({ length: 60 }, (_, n): [number, string] => [
      0,
      ['step', HEAD, '  File', 'Error: x'][n % 4] ?? ''
    ]);
    folds.update(0, 60, log(texts));
    expect(folds.hidden).toBe(30);
    for (let row = 0; row < 30; row++) {
      expect(folds.rowOf(folds.lineOf(row))).toBe(row);
    }
  });

  // Two ranks fail at once, and a third one goes on.
  const MIXED: [number, string][] = [
    [0, HEAD],
    [1, HEAD],
    [2, 'step 1'],
    [0, '  File "a.py", line 1'],
    [1, '  File "a.py", line 1'],
    [1, "KeyError: 'labels'"],
    [0, '    boom()'],
    [2, 'step 2'],
    [0, "KeyError: 'labels'"],
    [1, 'done'],
    [2, 'step 3']
  ];

  it('of ranks that print at once are one row each, with the lines of others where they were', () => {
    const folds = new Folds();
    folds.update(0, MIXED.length, log(MIXED));
    expect(folds.at(0)).toEqual({ start: 0, lines: [0, 3, 6, 8], last: "KeyError: 'labels'" });
    expect(folds.at(1)).toEqual({ start: 1, lines: [1, 4, 5], last: "KeyError: 'labels'" });
    const rows = Array.from({ length: MIXED.length - folds.hidden }, (_, row) => folds.lineOf(row));
    expect(rows).toEqual([0, 1, 2, 7, 9, 10]);
    expect(MIXED.map((_, index) => folds.rowOf(index))).toEqual([0, 1, 2, 0, 1, 1, 0, 3, 0, 4, 5]);
    folds.toggle(1);
    expect(folds.hidden).toBe(3);
    expect([0, 1, 2, 3, 4, 5].map(row => folds.lineOf(row))).toEqual([0, 1, 2, 4, 5, 7]);
    expect(folds.around(4)?.start).toBe(1);
    expect(folds.around(2)).toBeUndefined();
  });

  it('of ranks that print at once are whole however their lines come', () => {
    const orders = [
      [0, 4, 8, 11],
      [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
      [0, 7, 11]
    ];
    for (const cuts of orders) {
      const folds = new Folds();
      cuts.slice(1).forEach((end, index) => {
        folds.update(cuts[index] ?? 0, end, log(MIXED.slice(0, end)));
      });
      expect(folds.at(0)?.lines).toEqual([0, 3, 6, 8]);
      expect(folds.at(1)?.lines).toEqual([1, 4, 5]);
    }
  });

  it('are found where their begin comes after their end, and not across lines that are not here', () => {
    const folds = new Folds();
    const here = new Set([7, 8, 9, 10]);
    const part = (index: number) => (here.has(index) ? log(MIXED)(index) : undefined);
    expect(folds.update(7, 11, part)).toBe(false);
    [0, 1, 2, 3].forEach(index => here.add(index));
    expect(folds.update(0, 4, part)).toBe(false);
    [4, 5, 6].forEach(index => here.add(index));
    expect(folds.update(4, 7, part)).toBe(true);
    expect(folds.at(0)?.lines).toEqual([0, 3, 6, 8]);
  });

  it('end where the job says that the rank began again', () => {
    const folds = new Folds();
    const texts: [number, string][] = [
      [0, HEAD],
      [0, '  File "a.py"'],
      [0, '  more'],
      [0, '[jaxtrain: attempt 2 of rank 0]'],
      [0, '  step 1']
    ];
    folds.update(0, texts.length, log(texts));
    expect(folds.at(0)?.lines).toEqual([0, 1, 2]);
  });
});
