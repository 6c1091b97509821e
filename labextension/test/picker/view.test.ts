import { act } from 'preact/test-utils';
import { describe, expect, it } from 'vitest';

import { FakeCell } from '../fakes/picker';
import {
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

describe('the form', () => {
  it('shows the line, and what it asks for in all', async () => {
    await show(CLUSTER);
    expect(field('Nodes').value).toBe('2');
    expect(find('.jaxtrain-foot pre').textContent).toBe('%%jaxtrain --nodes=2 --runtime=jax-cpu');
    expect(find('.jaxtrain-ask').textContent).toBe('Total: 9 CPU');
    expect(find('.jaxtrain-standing').textContent).toBe('cell 7 · in sync');
    expect(root.textContent).toContain('jax-cpu supports 1–32 nodes');
  });

  it('changes the line as one types, by the arrow keys, and by a choice', async () => {
    await show(CLUSTER);
    await enter(field('Nodes'), '8');
    expect(source()).toContain('--nodes=8 ');
    field('Nodes').focus();
    await press('ArrowUp');
    expect(source()).toContain('--nodes=9 ');
    await act(() => input('.jaxtrain-segments [value=gpu]').click());
    await wait();
    expect(source()).toContain('--device=gpu');
    await act(() => input('.jaxtrain-segments [value=""]').click());
    await wait();
    expect(source()).not.toContain('--device');
    await enter(field('Result variables'), 'a, b,');
    expect(source()).toContain('--out=a,b');
    expect(field('Result variables').value).toBe('a, b,');
  });

  it('says next to a field what is wrong with it, and lets nothing run', async () => {
    await show(CLUSTER);
    await enter(field('Nodes'), 'four');
    const nodes = field('Nodes');
    expect(nodes.value).toBe('four');
    expect(nodes.getAttribute('aria-invalid')).toBe('true');
    const described = nodes.getAttribute('aria-describedby')?.split(' ') ?? [];
    const texts = described.map(id => find(`[id="${id}"]`).textContent);
    expect(texts).toEqual(['Help for nodes.', 'It takes a whole number. Such as 2.']);
    expect(button('▶ Run cell')?.getAttribute('aria-disabled')).toBe('true');
    await click(button('▶ Run cell'));
    expect(setup.cells.runs).toBe(0);
    await enter(nodes, '3');
    expect(field('Nodes').getAttribute('aria-invalid')).toBe('false');
    await click(button('▶ Run cell'));
    expect(setup.cells.runs).toBe(1);
  });

  it('has the other options under More, those of clusters with a cluster', async () => {
    await show(CLUSTER);
    expect(root.textContent).not.toContain('Queue');
    await click(button('More'));
    await enter(field('Queue'), 'team');
    expect(source()).toContain('--queue=team');
    expect(button('Less · 1 set')).toBeDefined();
    await click(field('Detach'));
    expect(source()).toContain('--detach');
    await click(field('Detach'));
    expect(source()).not.toContain('--detach');
    setup.cells.activate(new FakeCell('%%jaxtrain'));
    await wait();
    expect(root.textContent).not.toContain('Queue');
  });

  it('tells what is wrong with the line as a whole, as text', async () => {
    await show(`%%jaxtrain ${EVIL.replaceAll(' ', '')}`);
    expect(find('.jaxtrain-foot [role=alert]').textContent).toContain('What is <img');
    expect(root.querySelector('img')).toBeNull();
  });
});

describe('where there is no line', () => {
  it('inserts one', async () => {
    await show('print(1)\n');
    expect(root.textContent).toContain('cell 7 · this cell has no %%jaxtrain line');
    await enter(field('Nodes'), '2');
    expect(find('.jaxtrain-foot pre').textContent).toBe('%%jaxtrain --nodes=2');
    expect(source()).toBe('print(1)\n');
    button('Insert')?.focus();
    await click(button('Insert'));
    expect(document.activeElement).toBe(button('▶ Run cell'));
    expect(source()).toBe('%%jaxtrain --nodes=2\nprint(1)\n');
    expect(root.textContent).toContain('in sync');
  });

  it('says that no notebook is open', async () => {
    await show(null);
    expect(find('.jaxtrain-do').textContent).toBe('no notebook is open');
    expect(button('Insert')).toBeUndefined();
  });

  it('offers to try again when the server did not answer', async () => {
    await show(CLUSTER);
    setup.server.failing = 'line';
    await enter(field('Nodes'), '8');
    expect(root.textContent).toContain('out of sync');
    setup.server.failing = null;
    await click(button('Update'));
    expect(source()).toContain('--nodes=8');
  });
});

it('says why nothing can be shown, and tries again', async () => {
  await show(CLUSTER, ({ server }) => {
    server.failing = '';
  });
  expect(find('[role=alert]').textContent).toContain('The cluster says no.');
  setup.server.failing = null;
  await click(button('Try again'));
  expect(field('Nodes').value).toBe('2');
});
