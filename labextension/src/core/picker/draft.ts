import { Observable } from '../base/observable';
import type { Line, Values } from './types';

export const MAGIC = '%%jaxtrain';

export const NO_LINE: Line = { found: false, line: '', values: {}, errors: [], ask: null };

export function json(value: unknown): string {
  return JSON.stringify(value ?? null);
}

/** Apply changes to values; null removes one. */
export function merged(values: Values, changes: Values): Values {
  const all = Object.entries({ ...values, ...changes });
  return Object.fromEntries(all.filter(([, value]) => value !== null));
}

/** The line for a cell that has none: what the user has chosen, else the default options. */
export class Draft extends Observable {
  values: Values = {};
  /** The draft as a line. */
  line: Line = NO_LINE;
  #defaults = '';
  #parsed = ''; // the default options of which `#initial` has the values
  #initial: Values = {};

  /** What the user has chosen; null if it is just the defaults. */
  get chosen(): Values | null {
    return json(this.values) === json(this.#initial) ? null : this.values;
  }

  /** Set the values. */
  set(values: Values): void {
    this.values = values;
    this.notify();
  }

  /** Set the default options, as one types them. */
  setDefaults(line: string): void {
    this.#defaults = line.trim();
    this.notify();
  }

  /** Parse the default options, unless that is done; `read` returns null on failure. */
  async prepare(read: (source: string) => Promise<Line | null>): Promise<void> {
    const defaults = this.#defaults;
    if (defaults === this.#parsed) {
      return;
    }
    const line = defaults ? await read(`${MAGIC} ${defaults}\n`) : NO_LINE;
    if (line && defaults === this.#defaults) {
      const untouched = this.chosen === null;
      this.#parsed = defaults;
      this.#initial = merged({}, line.values);
      if (untouched) {
        this.values = this.#initial;
      }
    }
  }

  /** Start again: the draft has become the line of a cell. */
  reset(): void {
    this.values = this.#initial;
    this.line = NO_LINE;
  }
}
