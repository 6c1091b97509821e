/** Where a search matches in a line. The server decides which lines are hits; this only highlights. */

import type { Pattern } from '../base/protocol';
import type { Piece } from './ansi';

/** Characters of a line that are searched. */
const LONGEST = 4096;
const MOST = 50; // matches of a line that are highlighted

/** Start and end of a match. */
export type Span = readonly [number, number];

export interface Marker {
  find(text: string): readonly Span[];
}

/** Return what finds a plain text. */
export function textMarker({ pattern, case: matchCase }: Pattern): Marker {
  const source = pattern.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
  const regex = new RegExp(source, matchCase ? 'gu' : 'giu');
  return {
    find: text => {
      const found: Span[] = [];
      for (const match of text.slice(0, LONGEST).matchAll(regex)) {
        found.push([match.index, match.index + match[0].length]);
        if (found.length >= MOST) {
          break;
        }
      }
      return found;
    }
  };
}

export interface MarkedPiece extends Piece {
  marked: boolean;
}

/** Split pieces where matches start and end. */
export function mark(pieces: readonly Piece[], found: readonly Span[]): MarkedPiece[] {
  const cut: MarkedPiece[] = [];
  let at = 0;
  for (const piece of pieces) {
    const end = at + piece.text.length;
    let from = at;
    for (const [begin, stop] of found) {
      const [low, high] = [Math.max(begin, from), Math.min(stop, end)];
      if (low < high) {
        if (from < low) {
          cut.push({ ...piece, text: piece.text.slice(from - at, low - at), marked: false });
        }
        cut.push({ ...piece, text: piece.text.slice(low - at, high - at), marked: true });
        from = high;
      }
    }
    if (from < end) {
      cut.push({ ...piece, text: piece.text.slice(from - at), marked: false });
    }
    at = end;
  }
  return cut;
}

const BATCH = 32_768; // characters of a query: the size of a message is limited
const CACHED = 1000; // texts

/**
 * Finds the matches of a regular expression in the lines that are drawn, by asking the server.
 *
 * The server's engine takes linear time; a browser's may never finish a line.
 */
export class Expression {
  #ask: (texts: string[]) => Promise<readonly (readonly Span[])[]>;
  #notify: () => void;
  #known = new Map<string, readonly Span[]>();
  #pending = new Set<string>();
  #asking = false;
  #refused = false;

  /** Finds the matches known so far; replaced when there are more, so that lines are drawn again. */
  marker: Marker;

  constructor(ask: (texts: string[]) => Promise<readonly (readonly Span[])[]>, notify: () => void) {
    this.#ask = ask;
    this.#notify = notify;
    this.marker = this.#marker();
  }

  #marker(): Marker {
    return { find: text => this.#find(text.slice(0, LONGEST)) };
  }

  #find(text: string): readonly Span[] {
    const known = this.#known.get(text);
    if (!known && text && !this.#refused) {
      this.#pending.add(text);
      void this.#next();
    }
    return known ?? [];
  }

  async #next(): Promise<void> {
    if (this.#asking) {
      return;
    }
    this.#asking = true;
    await Promise.resolve(); // one query for all lines of a drawing
    const texts = this.#nextBatch();
    try {
      const found = await this.#ask(texts);
      if (this.#known.size + texts.length > CACHED) {
        this.#known.clear();
      }
      texts.forEach((text, index) => this.#known.set(text, found[index] ?? []));
    } catch {
      this.#refused = true; // not a valid expression, which the search reports, or the search has ended
      return;
    }
    this.#asking = false;
    this.marker = this.#marker();
    this.#notify();
  }

  /** Take the texts drawn last; others, if still in view, are drawn and requested again. */
  #nextBatch(): string[] {
    const texts: string[] = [];
    let room = BATCH;
    for (const text of [...this.#pending].reverse()) {
      room -= text.length + 1;
      if (room < 0) {
        break;
      }
      texts.push(text);
    }
    this.#pending.clear();
    return texts;
  }
}
