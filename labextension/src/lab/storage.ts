import type { IStateDB } from '@jupyterlab/statedb';

const NAME = 'jupyter-jax-trainer:views';
const STORE = 'jaxtrain:';

type Db = Pick<IStateDB, 'fetch' | 'save'>;

/**
 * Short texts that views store for later pages: with the workspace in JupyterLab, in the browser
 * elsewhere.
 */
export class ViewStorage {
  /** Resolves once the texts are loaded. The activation of a plugin must not wait for it. */
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
            this.#texts[name] ??= text; // a text set in the meantime wins
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
