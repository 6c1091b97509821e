import { expect, it } from 'vitest';

import { all, show, texts, useJob } from '../fakes/jobview';

useJob();

it('what comes before the ranks is shown where there is any', () => {
  show();
  expect(texts('h3, h2').join()).not.toContain('Initializers');
  const step = { pod: 'mnist-dataset', host: 'node0', restarts: 1 };
  show(
    {},
    {
      initializers: [
        { name: 'dataset-initializer', state: 'Finished', exit: 0, ...step },
        { name: '<img src=x>', state: 'Failed', exit: 3, ...step }
      ]
    }
  );
  const rows = all('table')[0]?.querySelectorAll('tbody tr') ?? [];
  expect([...rows].map(row => [...row.children].map(cell => cell.textContent))).toEqual([
    ['dataset-initializer', 'Finished', 'mnist-dataset', 'node0', '1', '0'],
    ['<img src=x>', 'Failed', 'mnist-dataset', 'node0', '1', '3']
  ]);
  expect(all('img')).toEqual([]);
});
