import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { render, type ComponentChild } from 'preact';

/**
 * A Lumino widget that holds a view of the core. It is drawn while it is attached, and not before
 * `ready`: what it remembers is known then.
 */
export class ViewWidget extends Widget {
  #view: () => ComponentChild;
  #disposed: (() => void) | undefined;
  #ready: boolean;

  constructor(view: () => ComponentChild, disposed?: () => void, ready?: Promise<unknown>) {
    super();
    this.#ready = ready === undefined;
    void ready?.then(() => {
      this.#ready = true;
      this.#draw();
    });
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
    this.#draw();
  }

  protected override onBeforeDetach(message: Message): void {
    render(null, this.node);
    super.onBeforeDetach(message);
  }

  protected override onActivateRequest(): void {
    const first = this.node.querySelector<HTMLElement>('input, [tabindex="0"], button');
    (first ?? this.node).focus();
  }

  #draw(): void {
    if (this.#ready && this.isAttached) {
      render(this.#view(), this.node);
    }
  }
}
