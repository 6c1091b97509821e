import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { render, type ComponentChild } from 'preact';

/**
 * A Lumino widget that renders a view of the core, while it is attached and not before `ready`.
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

  /** The element that gets the focus when the widget is activated. */
  protected get first(): HTMLElement | null {
    return this.node.querySelector('input, select, [tabindex="0"], button');
  }

  protected override onActivateRequest(): void {
    if (this.first) {
      this.first.focus();
    } else {
      this.#holdFocus();
    }
  }

  /** Keep the focus until an element is rendered that can have it. */
  #holdFocus(): void {
    const { node } = this;
    node.tabIndex = -1;
    node.focus();
    const drawn = new MutationObserver(() => {
      if (document.activeElement === node) {
        this.first?.focus();
      }
      if (document.activeElement !== node) {
        drawn.disconnect();
        node.removeAttribute('tabindex');
      }
    });
    drawn.observe(node, { childList: true, subtree: true });
  }

  #draw(): void {
    if (this.#ready && this.isAttached) {
      render(this.#view(), this.node);
    }
  }
}
