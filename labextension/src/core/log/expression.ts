/** Where a regular expression matches in lines: the server tells, in time linear to the line. */

import { LONGEST, type Marker, type Span } from './marks';

const AT_ONCE = 32_768; // characters that are asked about at a time: a message has a bound
const KEPT = 1000; // texts of which it is known

/** Asks about the lines that are drawn. A browser's own expressions may need for ever for one. */
export class Expression {
  #ask: (texts: string[]) => Promise<readonly (readonly Span[])[]>;
  #tell: () => void;
  #known = new Map<string, readonly Span[]>();
  #wanted = new Set<string>();
  #asking = false;
  #refused = false;

  /** Finds what is known; it is another one when there is more, and lines are to be drawn again. */
  marker: Marker;

  constructor(ask: (texts: string[]) => Promise<readonly (readonly Span[])[]>, tell: () => void) {
    this.#ask = ask;
    this.#tell = tell;
    this.marker = this.#marker();
  }

  #marker(): Marker {
    return { find: text => this.#find(text.slice(0, LONGEST)) };
  }

  #find(text: string): readonly Span[] {
    const known = this.#known.get(text);
    if (!known && text && !this.#refused) {
      this.#wanted.add(text);
      void this.#next();
    }
    return known ?? [];
  }

  async #next(): Promise<void> {
    if (this.#asking) {
      return;
    }
    this.#asking = true;
    await Promise.resolve(); // what is drawn together is asked about together
    const texts = this.#some();
    try {
      const found = await this.#ask(texts);
      if (this.#known.size + texts.length > KEPT) {
        this.#known.clear();
      }
      texts.forEach((text, index) => this.#known.set(text, found[index] ?? []));
    } catch {
      this.#refused = true; // it is no expression, which the search says, or nobody looks any more
      return;
    }
    this.#asking = false;
    this.marker = this.#marker();
    this.#tell();
  }

  /** Take what was drawn last; other lines, if they are still seen, are drawn and asked for again. */
  #some(): string[] {
    const texts: string[] = [];
    let room = AT_ONCE;
    for (const text of [...this.#wanted].reverse()) {
      room -= text.length + 1;
      if (room < 0) {
        break;
      }
      texts.push(text);
    }
    this.#wanted.clear();
    return texts;
  }
}
