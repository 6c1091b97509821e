import { json } from './draft';
import type { LineError, Values } from './types';

/** What was typed into a field, and the value that the server made of it; null until it did. */
interface Typed {
  text: string;
  value: string | null;
}

/** What the user typed, kept while the line has the resulting value, and what was refused. */
export class Inputs {
  #typed = new Map<string, Typed>();
  #refused: LineError[] = [];

  get refused(): ReadonlySet<string | null> {
    return new Set(this.#refused.map(({ option }) => option));
  }

  /** Record what was typed for an option; undefined if the value was chosen instead. */
  note(name: string, typed: string | undefined): void {
    this.#accept(name);
    if (typed === undefined) {
      this.#typed.delete(name);
    } else {
      this.#typed.set(name, { text: typed, value: null });
    }
  }

  /** Return what was typed, unless the line has got another value since. */
  text(name: string, values: Values): string | undefined {
    const typed = this.#typed.get(name);
    const same = typed && (typed.value === null || typed.value === json(values[name]));
    return same ? typed.text : undefined;
  }

  /** Take the answer to changes: the errors of those that are refused, the values of the others. */
  answered(changes: Values, values: Values, errors: LineError[]): void {
    for (const name of Object.keys(changes)) {
      const refusal = errors.find(({ option }) => option === name);
      const typed = this.#typed.get(name);
      this.#accept(name);
      if (refusal) {
        this.#refused.push(refusal);
      } else if (typed) {
        typed.value = json(values[name]);
      }
    }
  }

  /** Return all errors: of what was typed first, then those of the line about other options. */
  errors(ofLine: LineError[]): LineError[] {
    const refused = this.refused;
    const others = ofLine.filter(({ option }) => option === null || !refused.has(option));
    return [...this.#refused, ...others];
  }

  /** Forget what was refused: the line has been changed elsewhere. */
  forgetRefused(): void {
    for (const { option } of this.#refused) {
      this.#typed.delete(option ?? '');
    }
    this.#refused = [];
  }

  forget(): void {
    this.#typed.clear();
    this.#refused = [];
  }

  #accept(name: string): void {
    this.#refused = this.#refused.filter(({ option }) => option !== name);
  }
}
