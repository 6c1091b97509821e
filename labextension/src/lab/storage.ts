import type { IStateDB } from '@jupyterlab/statedb';

const NAME = 'jupyter-jax-trainer:views';
const STORE = 'jaxtrain:';

type Db = Pick<IStateDB, 'fetch' | 'save'>;

/**
 * Small texts that views keep for the next page: in JupyterLab with the workspace, where there
 * are no workspaces in the browser.
 */
export class ViewStorage {
  /** Whether what was kept is known. A plugin must not wait for it before it is activated. */
  readonly ready: Promise<void>;
  #db: Db | null;
  #texts: Record<string, string> = {};

  constructor(db: Db | null) {
    this.#db = db;
    this.ready = db ? this.#load(db) : Promise.resolve();
  }

  setItem(name: string, text: string): void {
    if (this.#db) {
      this.#texts[name] = text;
      this.#db.save(NAME, { ...this.#texts }).catch(complain);
      return;
    }
    try {
      localStorage.setItem(STORE + name, text);
    } catch {
      // A browser may refuse to store anything.
    }
  }

  getItem(name: string): string | null {
    if (this.#db) {
      return this.#texts[name] ?? null;
    }
    try {
      return localStorage.getItem(STORE + name);
    } catch {
      return null;
    }
  }

  async #load(db: Db): Promise<void> {
    try {
      const found = await db.fetch(NAME);
      if (found !== null && typeof found === 'object' && !Array.isArray(found)) {
        for (const [name, text] of Object.entries(found)) {
          if (typeof text === 'string') {
            this.#texts[name] ??= text; // what was said since then counts
          }
        }
      }
    } catch (error) {
      complain(error);
    }
  }
}

function complain(error: unknown): void {
  console.error('jaxtrain:', error);
}
