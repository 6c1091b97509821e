export interface Subscribable {
  /** Call `listener` after each change; return a function that ends the subscription. */
  subscribe(listener: () => void): () => void;
}

/** Something that changes, and notifies those who subscribed. */
export class Observable implements Subscribable {
  #listeners = new Set<() => void>();

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  protected notify(): void {
    // A copy: a listener may subscribe others, or end its own subscription.
    for (const listener of [...this.#listeners]) {
      listener();
    }
  }

  protected unsubscribeAll(): void {
    this.#listeners.clear();
  }
}
