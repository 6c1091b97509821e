import { act } from 'preact/test-utils';
import { describe, expect, it } from 'vitest';

import { option, OPTIONS } from '../fakes/picker';
import {
  all,
  enter,
  field,
  find,
  root,
  setup,
  show,
  source,
  usePicker,
  wait
} from '../fakes/pickerpage';

usePicker();

const FREE = 'print(1)\n';
const line = () => find('.jaxtrain-foot pre').textContent;

describe('the options of a new line', () => {
  it('are the usual ones, and give way to what is chosen', async () => {
    await show(FREE, ({ store }) => store.line.draft.setDefaults('--nodes=3 --queue=a'));
    expect(line()).toBe('%%jaxtrain --nodes=3 --queue=a');
    expect(field('Nodes').value).toBe('3');
    expect(setup.store.line.draft.chosen).toBeNull();
    await enter(field('Nodes'), '5');
    expect(setup.store.line.draft.chosen).toEqual({ nodes: '5', queue: 'a' });
    setup.store.line.draft.setDefaults('--nodes=9');
    await wait();
    expect(line()).toBe('%%jaxtrain --nodes=5 --queue=a');
  });

  it('follow what is usual as long as nothing was chosen', async () => {
    await show(FREE, ({ store }) => store.line.draft.setDefaults('--nodes=3'));
    setup.store.line.draft.setDefaults('--nodes=9');
    await wait();
    expect(line()).toBe('%%jaxtrain --nodes=9');
    setup.store.line.draft.setDefaults('');
    await wait();
    expect(line()).toBe('%%jaxtrain');
  });

  it('are in the cell after an insert, and there again for the next cell', async () => {
    await show(FREE, ({ store }) => store.line.draft.setDefaults('--nodes=3'));
    await enter(field('Nodes'), '5');
    await act(() => setup.store.line.insert().then(() => undefined));
    expect(source()).toBe('%%jaxtrain --nodes=5\nprint(1)\n');
    expect(setup.store.line.draft.chosen).toBeNull();
    expect(setup.store.line.draft.values).toEqual({ nodes: 3 });
  });

  it('can be put there from what was kept', async () => {
    await show(FREE);
    setup.store.line.draft.set({ nodes: 7, backend: 'kubernetes' });
    await wait();
    expect(line()).toBe('%%jaxtrain --nodes=7 --backend=kubernetes');
    expect(setup.store.place?.id).toBe('context:gke');
  });
});

describe('options for clusters alone', () => {
  it('are marked at their field where the job runs on this machine', async () => {
    await show('%%jaxtrain --backend=local --queue=a\n');
    expect(field('Queue').getAttribute('aria-invalid')).toBe('true');
    const described = field('Queue').getAttribute('aria-describedby')?.split(' ') ?? [];
    const said = described.map(id => document.getElementById(id)?.textContent).join(' ');
    expect(said).toContain('Only applies on Kubernetes');
    expect(find('.jaxtrain-primary').getAttribute('aria-disabled')).toBe('true');
    await enter(field('Queue'), '');
    expect(root.textContent).not.toContain('on Kubernetes only');
    expect(find('.jaxtrain-primary').getAttribute('aria-disabled')).toBe('false');
  });

  it('are fine on a cluster', async () => {
    await show('%%jaxtrain --runtime=jax-cpu --queue=a\n');
    expect(root.textContent).not.toContain('on Kubernetes only');
  });
});

const CPU = { flavor: 'small', resource: 'cpu', total: '4', free: '1' };

function offered(name: string): string[][] {
  const list = document.getElementById(field(name).getAttribute('list') ?? '');
  return [...(list?.querySelectorAll('option') ?? [])].map(each => [
    each.value,
    each.getAttribute('label') ?? ''
  ]);
}

describe('images', () => {
  it('are offered as the runtimes have them', async () => {
    const image = option('image');
    OPTIONS.push(image);
    try {
      await show('%%jaxtrain --runtime=jax-cpu --image=x\n');
      await act(() => find('.jaxtrain-form .jaxtrain-link').click());
      expect(offered('Image').map(([value]) => value)).toEqual(['example.org/jax:1']);
      expect(all('datalist')).toHaveLength(1);
    } finally {
      OPTIONS.splice(OPTIONS.indexOf(image), 1);
    }
  });
});

describe('queues', () => {
  it('are offered with what is free in them, and priorities with what they are for', async () => {
    const priority = option('priority');
    OPTIONS.push(priority);
    const kueue = {
      version: '0.16.2',
      keeps_patches: false,
      queues: [
        { name: 'team', problem: null, waiting: 2, admitted: 1, free: [CPU] },
        { name: 'held', problem: 'it is stopped', waiting: 0, admitted: 0, free: null }
      ],
      priorities: [{ name: 'urgent', value: 100, description: 'for a deadline' }]
    };
    try {
      const line = '%%jaxtrain --runtime=jax-cpu --queue=a --priority=b\n';
      await show(line, ({ server }) => (server.kueue = kueue));
      await act(() => find('.jaxtrain-form .jaxtrain-link').click());
      expect(offered('Queue')).toEqual([
        ['team', '2 jobs waiting · cpu: 1 of 4 free'],
        ['held', 'it is stopped']
      ]);
      expect(offered('Priority')).toEqual([['urgent', '100 · for a deadline']]);
    } finally {
      OPTIONS.splice(OPTIONS.indexOf(priority), 1);
    }
  });

  it('are not asked for on this machine', async () => {
    await show('%%jaxtrain --nodes=2\n');
    expect(setup.server.asked.map(({ path }) => path).join()).not.toContain('queues');
  });
});
