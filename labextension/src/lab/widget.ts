import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { render, type ComponentChild } from 'preact';

/** A Lumino widget that holds a view of the core. It is drawn while it is attached. */
export class ViewWidget extends Widget {
  #view: () => ComponentChild;
  #disposed: (() => void) | undefined;

  constructor(view: () => ComponentChild, disposed?: () => void) {
    super();
    this.#view = view;
    this.#disposed = disposed;
    this.addClass('jaxtrain');
  }

  override dispose(): void {
    if (!this.isDisposed) {
      super.dispose();
      this.#disposed?.();
    }
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    render(this.#view(), this.node);
  }

  protected override onBeforeDetach(message: Message): void {
    render(null, this.node);
    super.onBeforeDetach(message);
  }

  protected override onActivateRequest(): void {
    const first = this.node.querySelector<HTMLElement>('input, [tabindex="0"], button');
    (first ?? this.node).focus();
  }
}
