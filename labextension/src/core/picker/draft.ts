import { Teller } from '../base/observable';
import type { Line, Values } from './types';
import { json, merged, NO_LINE } from './values';

export const MAGIC = '%%jaxtrain';

/** What a line will say in a cell that has none: what somebody has chosen, else what is usual. */
export class Draft extends Teller {
  values: Values = {};
  /** The draft as a line. */
  line: Line = NO_LINE;
  #usual = '';
  #known = ''; // the usual options that `#begin` is of
  #begin: Values = {};

  /** What somebody has chosen; null where nothing but the usual is. */
  get own(): Values | null {
    return json(this.values) === json(this.#begin) ? null : this.values;
  }

  /** Let it say something else. */
  set(values: Values): void {
    this.values = values;
    this.tell();
  }

  /** Say which options are usual, as one types them. */
  setUsual(line: string): void {
    this.#usual = line.trim();
    this.tell();
  }

  /** Have the usual options read, unless they are; `read` gives null where that fails. */
  async prepare(read: (source: string) => Promise<Line | null>): Promise<void> {
    const usual = this.#usual;
    if (usual === this.#known) {
      return;
    }
    const line = usual ? await read(`${MAGIC} ${usual}\n`) : NO_LINE;
    if (line && usual === this.#usual) {
      const untouched = this.own === null;
      this.#known = usual;
      this.#begin = merged({}, line.values);
      if (untouched) {
        this.values = this.#begin;
      }
    }
  }

  /** Begin anew: it has become the line of a cell. */
  reset(): void {
    this.values = this.#begin;
    this.line = NO_LINE;
  }
}
