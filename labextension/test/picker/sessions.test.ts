import { describe, expect, it } from 'vitest';

import { session } from '../fakes/make';
import {
  all,
  button,
  click,
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

const select = () => find('select') as HTMLSelectElement;
const LAB = 'session lab';

describe('a live session', () => {
  it('is offered as a target, and its options count', async () => {
    await show('%%jaxtrain --nodes=2 --backend=kubernetes --out=loss', ({ jobs }) => {
      const trust = 'foreign' as const;
      jobs.rows = [session(), session({ key: 'x', trust }), session({ key: 'y', active: false })];
    });
    expect([...select().options].slice(3).map(each => each.textContent)).toEqual([
      'session lab · 2 nodes × 1 CPU device'
    ]);
    await enter(select(), LAB, 'change');
    expect(source()).toBe('%%jaxtrain --out=loss --session=lab');
    expect(select().value).toBe(LAB);
    expect(find('.jaxtrain-session-note').textContent).toContain('labRunning2 nodes');
    expect(root.querySelector('.jaxtrain-runtimes, .jaxtrain-health')).toBeNull();
    expect(find('.jaxtrain-ask').textContent).toBe('Total: session lab · 2 nodes × 1 CPU device');
    await click(button('More'));
    expect(field('Nodes').disabled).toBe(true);
    expect(field('Nodes').placeholder).toBe('2');
    expect(field('Result variables').disabled).toBe(false);
    expect(field('Name').disabled).toBe(false);
    expect(all('[data-kind=choice] input').every(each => (each as HTMLInputElement).disabled)).toBe(
      true
    );
  });

  it('is left for a place', async () => {
    await show('%%jaxtrain --session=lab', ({ jobs }) => {
      jobs.rows = [session()];
    });
    expect(select().value).toBe(LAB);
    await enter(select(), 'context:gke', 'change');
    expect(source()).toBe('%%jaxtrain --backend=kubernetes');
    expect(field('Nodes').disabled).toBe(false);
  });

  it('may take what the line says, which can be taken away', async () => {
    await show('%%jaxtrain --session=lab --nodes=2', ({ jobs }) => {
      jobs.rows = [session()];
    });
    expect(field('Nodes').disabled).toBe(false);
    await enter(field('Nodes'), '');
    expect(source()).toBe('%%jaxtrain --session=lab');
    expect(field('Nodes').disabled).toBe(true);
  });

  it('comes and goes', async () => {
    await show('%%jaxtrain --session=lab');
    expect(select().value).toBe('local');
    setup.jobs.set(session());
    await wait();
    expect(select().value).toBe(LAB);
    setup.jobs.set();
    await wait();
    expect(select().value).toBe('local');
    expect(find('.jaxtrain-runtimes')).toBeTruthy();
  });
});
