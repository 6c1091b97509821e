/** Something that tells when it has changed. */
export interface Watched {
  watch(watcher: () => void): () => void;
}

export class Teller implements Watched {
  #watchers = new Set<() => void>();

  watch(watcher: () => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  protected tell(): void {
    for (const watcher of [...this.#watchers]) {
      watcher();
    }
  }
}
