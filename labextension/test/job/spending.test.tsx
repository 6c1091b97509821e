import { describe, expect, it } from 'vitest';

import { all, button, doing, find, show, texts, useJob } from '../fakes/jobview';

useJob(() => ({}));

const spending = {
  parts: { waiting: 5, compiling: 20, steps: 75 },
  goodput: 0.75,
  late: [
    { rank: 0, step: 0.5, host: 0.01, late: 0 },
    { rank: 3, step: 0.5, host: 0.21, late: 0.2 }
  ],
  functions: [{ name: 'step<b>', count: 2, seconds: 18 }]
};

describe('where the time of a job goes', () => {
  it('is a bar of parts, a list and the functions that took long to compile', () => {
    show({ spending });
    doing(() => button('▸ Time').click());
    expect(find('[data-section=spending]').textContent).toContain('goodput 75 %');
    const bars = all('.jaxtrain-shares > div').map(({ style }) => style.clipPath);
    expect(bars.slice(0, 3)).toEqual([
      'inset(0 95.00% 0 0.00%)',
      'inset(0 75.00% 0 5.00%)',
      'inset(0 0.00% 0 25.00%)'
    ]);
    expect(bars.slice(3, 6)).toEqual([
      'inset(0 98.00% 0 0.00%)', // of rank 3: outside jax as long as rank 0
      'inset(0 58.00% 0 2.00%)', // and longer: it is late by that
      'inset(0 0.00% 0 42.00%)'
    ]);
    expect(texts('.jaxtrain-parts li')).toEqual([
      'waiting 5 s',
      'compiling 20 s',
      'steps 1 m 15 s'
    ]);
    expect(find('[data-section=spending] p').textContent).toContain('step<b> 18 s');
    expect(texts('.jaxtrain-late tbody :is(th, td)')).toEqual([
      '3',
      '500 ms',
      '210 ms',
      '200 ms',
      '',
      '0',
      '500 ms',
      '10 ms',
      '0 ms',
      ''
    ]);
  });

  it('says what the compile cache had, had not and saved', () => {
    const lines = () => texts('[data-section=spending] p').filter(text => text.includes('cache'));
    show({ spending });
    all('[data-section=spending] button[aria-expanded=false]').forEach(fold =>
      doing(() => fold.click())
    );
    expect(lines()).toEqual([]);
    show({ spending, compile_cache: { hits: 3, misses: 1, saved: 12.4 } });
    expect(lines()).toEqual(['Compile cache: 3 hits, 1 miss, 12 s saved']);
    show({ spending, compile_cache: { hits: 1, misses: 0, saved: 0.25 } });
    expect(lines()).toEqual(['Compile cache: 1 hit, 0 misses, 250 ms saved']);
    show({ spending: null, compile_cache: { hits: 0, misses: 5, saved: 0 } });
    expect(lines()).toEqual(['Compile cache: 0 hits, 5 misses']);
  });

  it('says that the ranks have said nothing of it', () => {
    show({ spending: null });
    expect(texts('[data-section=spending] p')).toEqual([
      'The ranks have not reported timings yet.'
    ]);
  });
});
