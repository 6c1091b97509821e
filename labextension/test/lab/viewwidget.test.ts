import { Widget } from '@lumino/widgets';
import { h, type ComponentChild } from 'preact';
import { afterEach, expect, it, vi } from 'vitest';

import { useObservable } from '../../src/core/base/hooks';
import { Observable } from '../../src/core/base/observable';
import { ViewWidget } from '../../src/lab/viewwidget';

class Content extends Observable {
  node: ComponentChild = 'Checking…';

  show(node: ComponentChild): void {
    this.node = node;
    this.notify();
  }
}

const content = new Content();

function View() {
  useObservable(content);
  return h('section', null, content.node);
}

let widget: ViewWidget | undefined;

async function activated(): Promise<ViewWidget> {
  widget = new ViewWidget(() => h(View, null));
  const { node } = widget;
  Widget.attach(widget, document.body);
  widget.activate();
  await vi.waitFor(() => expect(node.contains(document.activeElement)).toBe(true));
  return widget;
}

afterEach(() => {
  widget?.dispose();
  content.show('Checking…');
});

it('gives the focus to the first field', async () => {
  content.show(h('select', { id: 'first' }));
  await activated();
  expect(document.activeElement?.id).toBe('first');
});

it('has the focus itself while nothing in it can, and hands it on', async () => {
  const { node } = await activated();
  expect(document.activeElement).toBe(node);
  content.show(h('b', null, 'nearly'));
  await vi.waitFor(() => expect(node.textContent).toBe('nearly'));
  expect(document.activeElement).toBe(node);
  content.show(h('button', { id: 'late' }));
  await vi.waitFor(() => expect(document.activeElement?.id).toBe('late'));
  expect(node.hasAttribute('tabindex')).toBe(false);
});

it('leaves the focus where somebody has taken it', async () => {
  const other = document.body.appendChild(document.createElement('input'));
  const { node } = await activated();
  other.focus();
  content.show(h('button', { id: 'late' }));
  await vi.waitFor(() => expect(node.hasAttribute('tabindex')).toBe(false));
  expect(document.activeElement).toBe(other);
  other.remove();
});
