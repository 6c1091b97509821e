import { describe, expect, it } from 'vitest';

import { place, runtime } from '../fakes/picker';
import {
  all,
  button,
  click,
  CLUSTER,
  enter,
  field,
  find,
  input,
  press,
  root,
  setup,
  show,
  source,
  usePicker,
  wait
} from '../fakes/pickerpage';

const EVIL = '<img src=x onerror="window.hacked = 1">';

usePicker();

describe('the place', () => {
  it('is that of the line, and another one is written into it', async () => {
    await show('%%jaxtrain --nodes=2');
    const select = () => find('select') as HTMLSelectElement;
    expect(select().value).toBe('local');
    expect([...select().options].map(each => each.textContent)).toEqual([
      'this machine',
      'kubernetes · gke (current)',
      'kubernetes · lab'
    ]);
    await enter(select(), 'context:lab', 'change');
    expect(source()).toBe('%%jaxtrain --nodes=2 --backend=kubernetes --context=lab');
    expect(field('Namespace').value).toBe('team-a');
    await enter(field('Namespace'), 'team-b', 'change');
    expect(source()).toContain('--namespace=team-b');
  });

  it('says how it is in a line, and all of it with what to do on demand', async () => {
    await show(CLUSTER, ({ server }) => {
      server.findings = [
        { level: 'ok', title: 'Trainer', detail: '2.3.0', hint: null },
        { level: 'error', title: 'Rights', detail: EVIL, hint: 'Ask for `a role`.' }
      ];
    });
    const summary = find('.jaxtrain-summary');
    expect(summary.textContent).toBe(`error: Rights: ${EVIL}`);
    expect(find('.jaxtrain-health > [hidden]')).toBeTruthy();
    await click(summary);
    expect(root.querySelector('.jaxtrain-health > [hidden]')).toBeNull();
    expect(all('.jaxtrain-findings li')).toHaveLength(2);
    expect(root.textContent).toContain('Ask for a role.');
    expect(find('.jaxtrain-findings code').textContent).toBe('a role');
    const before = setup.server.asked.length;
    await click(button('Check again'));
    expect(setup.server.asked.length).toBeGreaterThan(before);
  });

  it('keeps open what was opened until another place is looked at', async () => {
    await show(CLUSTER, ({ server }) => {
      server.findings = [{ level: 'ok', title: 'Trainer', detail: '2.3.0', hint: null }];
    });
    await click(find('.jaxtrain-summary'));
    setup.server.silent = /line.write/;
    await enter(field('Namespace'), 'team-b', 'change');
    expect(field('Namespace').value).toBe('team-b');
    expect(root.querySelector('.jaxtrain-health > [hidden]')).toBeNull();
  });

  it('says why it cannot be used, or that there is no cluster', async () => {
    await show('%%jaxtrain --backend=kubernetes', ({ server }) => {
      const [here] = server.places;
      server.places = [
        ...(here ? [here] : []),
        place({ problem: 'No package.', hint: '`Get` it.' })
      ];
    });
    expect(find('.jaxtrain-place [role=alert]').textContent).toContain('No package.Get it.');
    expect(find('.jaxtrain-place code').textContent).toBe('Get');
    setup.server.places = setup.server.places.slice(0, 1);
    await click(button('Check again'));
    expect(root.textContent).toContain('add a kubeconfig');
    expect((find('select') as HTMLSelectElement).value).toBe('');
  });
});

const radios = () => all('[role=radio]');

describe('a cluster that has not answered', () => {
  const silent = () =>
    show(CLUSTER, ({ server }) => {
      server.silent = /place=/;
    });

  it('leaves the form of use', async () => {
    await silent();
    expect(find('.jaxtrain-health').textContent).toBe('Querying the cluster…');
    expect(root.textContent).toContain('jax-cpu supports …');
    await enter(field('Nodes'), '8');
    expect(source()).toContain('--nodes=8');
    expect(button('▶ Run cell')?.getAttribute('aria-disabled')).toBe('false');
  });

  it('has the runtime of the line to choose, and none', async () => {
    await silent();
    expect(radios().map(each => each.querySelector('b')?.textContent)).toEqual([
      'Automatic',
      'jax-cpu'
    ]);
    expect(radios()[1]?.textContent).not.toContain('error');
    await click(radios()[0]);
    expect(source()).toBe('%%jaxtrain --nodes=2 --backend=kubernetes\nprint(1)\n');
  });

  it('and could not be asked says so in the line for that', async () => {
    await show(CLUSTER, ({ server }) => {
      server.failing = 'health';
    });
    await click(find('.jaxtrain-summary'));
    expect(find('.jaxtrain-summary').textContent).toBe('error: The cluster says no.');
    expect(find('.jaxtrain-findings').textContent).toContain('Ask for more.');
    setup.server.failing = null;
    setup.server.silent = /health/;
    button('Check again')?.focus();
    await click(button('Check again'));
    expect(find('.jaxtrain-findings').textContent).toContain('Ask for more.');
    expect(root.textContent).toContain('Checking…');
    setup.server.silent = null;
    await click(button('Check again'));
    expect(find('.jaxtrain-summary').textContent).toContain('Ready');
    expect(document.activeElement).toBe(button('Check again')); // and was all the time
  });

  it('and has no list to offer says so in the place of the list, until it has', async () => {
    await show(CLUSTER, ({ server }) => {
      server.failing = 'runtimes';
    });
    const again = () => find('.jaxtrain-offers button:not(.jaxtrain-link)');
    setup.server.failing = null;
    setup.server.silent = /runtimes/;
    again().focus();
    await click(again());
    expect(find('.jaxtrain-offers').textContent).toContain('The cluster says no.');
    expect(document.activeElement).toBe(again());
    setup.server.silent = null;
    await click(again());
    expect(find('.jaxtrain-offers').textContent).toContain('jax-gpu');
    expect(document.activeElement).toBe(find('select')); // what had the focus is gone
  });
});

describe('the runtimes', () => {
  const checked = () => radios().find(each => each.getAttribute('aria-checked') === 'true');

  it('are cards, of which the one of the line is chosen', async () => {
    await show(CLUSTER, ({ server }) => {
      server.runtimes.push(
        runtime({ name: 'old', deprecated: true, problem: `py 3.9 ${EVIL}`, devices: 8 })
      );
    });
    expect(checked()?.textContent).toBe('jax-cpuCPUpy 3.121–32 nodesjax 0.10.2');
    const [, , , old] = radios();
    expect(old?.textContent).toContain('deprecated');
    expect(old?.textContent).toContain(`warning: py 3.9 ${EVIL}`);
    await click(radios()[2]);
    expect(source()).toContain('--runtime=jax-gpu');
    expect(checked()?.textContent).toContain('jax-gpu');
    expect(checked()?.textContent).toContain('2 nodes');
    expect(find('.jaxtrain-ask').textContent).toBe('Total: 2 GPU · 9 CPU');
  });

  it('have one Tab stop, which arrows move; Space chooses', async () => {
    await show(CLUSTER);
    expect(radios().map(each => each.tabIndex)).toEqual([-1, 0, -1]);
    radios()[1]?.focus();
    await press('ArrowDown');
    expect(document.activeElement).toBe(radios()[2]);
    expect(radios().map(each => each.tabIndex)).toEqual([-1, -1, 0]);
    expect(source()).toBe(CLUSTER);
    await press(' ');
    expect(source()).toContain('--runtime=jax-gpu');
    await press('Home');
    await press('Enter');
    expect(source()).toBe('%%jaxtrain --nodes=2 --backend=kubernetes\nprint(1)\n');
  });

  it('show their details and YAML on demand', async () => {
    await show(CLUSTER);
    await click(find('[aria-label="Details of jax-cpu"]'));
    expect(find('.jaxtrain-details').textContent).toContain('Imageexample.org/jax:1');
    await click(button('YAML'));
    expect(find('.jaxtrain-yaml').textContent).toContain('kind: ClusterTrainingRuntime');
    expect(setup.server.asked.at(-1)?.path).toBe('runtimes/jax-cpu/yaml?place=context%3Agke');
  });

  it('can be searched where there are many', async () => {
    await show(CLUSTER, ({ server }) => {
      server.runtimes = ['a', 'b', 'c', 'd', 'jax-cpu'].map(name => runtime({ name }));
    });
    await enter(input('[type=search]'), 'jax-cpu');
    expect(root.textContent).toContain('5');
    await enter(input('[type=search]'), 'none of them');
    expect(root.textContent).toContain('No matching runtimes');
    await click(button('Show all'));
    expect(radios()).toHaveLength(6);
  });

  it('keep what is being searched while another namespace is asked', async () => {
    await show(CLUSTER, ({ server }) => {
      server.runtimes = ['a', 'b', 'c', 'd', 'jax-cpu'].map(name => runtime({ name }));
    });
    const search = input('[type=search]');
    await enter(search, 'jax');
    setup.server.silent = /^runtimes/;
    await enter(field('Namespace'), 'team-b', 'change');
    expect(input('[type=search]')).toBe(search);
    expect(search.value).toBe('jax');
    await enter(search, '');
    expect(input('[type=search]')).toBe(search);
  });

  it('say when there is none, when one is not there, and why there is no list', async () => {
    await show('%%jaxtrain --runtime=gone');
    expect(checked()?.textContent).toContain('gone');
    expect(checked()?.textContent).toContain('not found');
    setup.server.runtimes = [];
    setup.store.refresh();
    await wait();
    expect(root.textContent).toContain('No training runtimes for JAX found');
    setup.server.failing = 'runtimes';
    setup.store.refresh();
    await wait();
    expect(root.textContent).toContain('The cluster says no.Ask for more.');
  });
});
