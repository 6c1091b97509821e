import { describe, expect, it } from 'vitest';

import type { Failure } from '../../src/core/base/protocol';
import { all, button, doing, find, root, say, show, texts, useJob } from '../fakes/jobview';
import { ended, NOW, row } from '../fakes/make';

useJob();

const failure: Failure = { rank: 0, kind: 'error', message: 'KeyError', exit: 1 };
const fails = () => show({ row: ended({ state: 'Failed' }) }, { state: 'Failed', failure });
const held = () => find('.jaxtrain-now').dataset['held'];

describe('what a job does now', () => {
  it('is a reason while it waits, then its last lines', () => {
    show({ row: row({ state: 'Pending', reason: 'no node is free', hint: 'See `x`.' }) });
    expect(texts('.jaxtrain-now .jaxtrain-why p')).toEqual(['no node is free', 'See x.']);
    expect(texts('.jaxtrain-tail')).toEqual(['No output yet']);
    show();
    say({ kind: 'tail', lines: [[1, NOW, '\x1b[31mstep\x1b[0m 1 <img>']] });
    expect(all('.jaxtrain-why')).toEqual([]);
    expect(texts('.jaxtrain-tail-text')).toEqual(['step 1 <img>']);
    expect(root.querySelector('img')).toBeNull();
    expect(held()).toBe('true');
  });

  it('keeps its place when the job fails, until one wants to see all of it', () => {
    show();
    fails();
    expect(all('.jaxtrain-tail')).toEqual([]);
    expect(held()).toBe('true');
    doing(() => button('Show all').click());
    expect(held()).toBe('false');
    expect(button('Show less').getAttribute('aria-expanded')).toBe('true');
    doing(() => button('Show less').click());
    expect(held()).toBe('true');
  });

  it('is shown as a whole where the job had ended before', () => {
    fails();
    expect(held()).toBe('false');
    expect(texts('.jaxtrain-failure button')).toEqual([]);
  });

  it('is nothing where a job has printed nothing and succeeded', () => {
    show({ row: ended() });
    expect(texts('.jaxtrain-now')).toEqual(['']);
    say({ kind: 'tail', lines: [[0, NOW, 'accuracy 0.97']] });
    expect(texts('.jaxtrain-tail-text')).toEqual(['accuracy 0.97']);
  });
});
