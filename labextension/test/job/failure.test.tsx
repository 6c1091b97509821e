import { describe, expect, it, vi } from 'vitest';

import type { Failure } from '../../src/core/base/protocol';
import { ranksText } from '../../src/core/base/ranks';
import { english } from '../../src/core/base/translator';
import { button, doing, find, host, root, show, texts, useJob } from '../fakes/jobview';
import { ended } from '../fakes/make';

const EVIL = '<img src=x onerror="window.hacked = 1">';
const TRACEBACK = [
  'Traceback (most recent call last):',
  '  Cell, line 2, in <module>',
  '    y = batch["labels"]',
  "KeyError: 'labels'"
].join('\n');

const openLog = vi.fn<(key: string, rank: number) => void>();
useJob(() => ({ openLog }));

function fail(change: object, reason: string | null = null, hint: string | null = null): void {
  const failure = { rank: 2, kind: 'error', message: 'KeyError', exit: 1, ...change } as Failure;
  show({ row: ended({ state: 'Failed', reason, hint }) }, { state: 'Failed', failure });
}

describe('why a job failed', () => {
  it('names no rank where none is to blame', () => {
    fail({ rank: undefined, kind: 'supervisor', message: 'its process is gone' });
    expect(find('.jaxtrain-failure').textContent).toContain('The job failed');
    expect(root.textContent).not.toContain('undefined');
  });

  it('marks the line that failed in a cell, not in a file', () => {
    const error = { type: 'KeyError', traceback: TRACEBACK, cell: 'train.py', cell_line: 2 };
    const failure = { rank: 2, kind: 'error', message: 'KeyError', exit: 1, error } as Failure;
    show({ row: ended({ state: 'Failed' }), script: '/a/train.py' }, { state: 'Failed', failure });
    expect(texts('mark')).toEqual([]);
    show({ row: ended({ state: 'Failed' }), script: null }, { state: 'Failed', failure });
    expect(texts('mark')).toEqual(['print(1)']);
  });

  it('names the first rank, the traceback, the others, and what to do', () => {
    fail(
      {
        message: "KeyError: 'labels' (cell line 2)",
        error: { type: 'KeyError', traceback: TRACEBACK, cell: 'Cell', cell_line: 2 },
        others: [0, 1, 3],
        hint: 'Give it `labels`.'
      },
      "rank 2 failed first: KeyError: 'labels' (cell line 2)"
    );
    const said = find('.jaxtrain-failure').textContent;
    expect(said).toContain(
      'rank 2 failed first' + 'exception' + "KeyError: 'labels' (cell line 2)"
    );
    expect(said).toContain('ranks 0, 1 and 3 stopped because of it.');
    expect(said.split('(cell line 2)')).toHaveLength(2);
    expect(texts('.jaxtrain-hint')).toEqual(['Give it labels.']);
    expect(texts('.jaxtrain-hint code')).toEqual(['labels']);
    expect(texts('.jaxtrain-traceback')).toEqual([TRACEBACK]);
    expect(texts('.jaxtrain-traceback b').map(line => line.trim())).toEqual([
      'Cell, line 2, in <module>',
      'y = batch["labels"]',
      "KeyError: 'labels'"
    ]);
    expect(texts('mark')).toEqual(['print(1)']);
    doing(() => button('Open the log of rank 2').click());
    expect(openLog).toHaveBeenCalledWith('mnist-4', 2);
    doing(() => button('Copy traceback').click());
    expect(host.copy).toHaveBeenCalledWith(TRACEBACK);
  });

  it('shows the last lines of the container that failed', () => {
    fail({
      rank: null,
      kind: 'start',
      message: 'the initializer failed',
      container: 'dataset-initializer',
      log: ['no such bucket', EVIL]
    });
    expect(find('.jaxtrain-failure').textContent).toContain(
      'The last lines of dataset-initializer'
    );
    expect(texts('.jaxtrain-failure pre')).toEqual([`no such bucket\n${EVIL}`]);
    expect(root.querySelector('img')).toBeNull();
  });

  it('takes hostile or strange words for text', () => {
    fail({ message: EVIL, error: 'none', others: 'all', log: 7, hint: EVIL }, EVIL, EVIL);
    expect(find('.jaxtrain-failure').textContent).toContain(EVIL);
    expect(root.querySelector('img')).toBeNull();
    expect(texts('.jaxtrain-hint')).toEqual([EVIL]);
  });

  it('says of a cancelled or waiting job only the reason', () => {
    const failure = { rank: null, kind: 'cancelled', message: 'x', exit: null };
    show({ row: ended({ state: 'Cancelled', reason: 'cancelled by you' }) }, { failure });
    expect(texts('.jaxtrain-why')).toEqual(['cancelled by you']);
  });
});

describe('words', () => {
  it('gives ranks in words', () => {
    const said = (...ranks: number[]) => ranksText(ranks, english);
    expect(said(3)).toBe('rank 3');
    expect(said(1, 0)).toBe('ranks 0 and 1');
    expect(said(0, 1, 2, 5)).toBe('ranks 0–2 and 5');
    expect(said(0, 2, 4)).toBe('ranks 0, 2 and 4');
  });
});
