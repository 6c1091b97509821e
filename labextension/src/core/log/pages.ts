/** The loaded lines of a view: a bounded number of pages, those used last. */

import type { RawLine, Source } from '../base/protocol';

export const PAGE = 200;
export const PAGES = 40;

/** A note of ours between the lines of a rank. */
export const NOTE = /^\[jaxtrain: (.*)\]$/;

export interface LogLine {
  /** Its number in the merged log; it never changes. */
  position: number;
  source: Source | null;
  /** When it was seen, in seconds since the epoch. */
  time: number | null;
  text: string;
  /** How many bytes the line has in all; `text` may be cut. */
  bytes: number;
}

export class Pages {
  #pages = new Map<number, LogLine[]>();
  readonly #most: number;

  constructor(most = PAGES) {
    this.#most = most;
  }

  get size(): number {
    return this.#pages.size;
  }

  line(index: number): LogLine | undefined {
    return this.#pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  /** How many lines of a page are loaded. */
  having(page: number): number {
    return this.#pages.get(page)?.length ?? 0;
  }

  /** Mark a page as used, so that it is kept longer than others. */
  touch(page: number): void {
    const lines = this.#pages.get(page);
    if (lines) {
      this.#pages.delete(page);
      this.#pages.set(page, lines);
    }
  }

  /** Take lines from `start` on, which lie within one page; those that are loaded stay as they are. */
  take(start: number, lines: RawLine[]): void {
    const page = Math.floor(start / PAGE);
    const known = this.#pages.get(page) ?? [];
    const new_ = lines.slice(Math.max(0, known.length - (start % PAGE)));
    if (start % PAGE > known.length) {
      return; // there would be a hole
    }
    this.#pages.delete(page);
    this.#pages.set(page, [...known, ...new_.map(toLine)].slice(0, PAGE));
    for (const oldest of this.#pages.keys()) {
      if (this.#pages.size <= this.#most) {
        break;
      }
      this.#pages.delete(oldest);
    }
  }

  clear(): void {
    this.#pages.clear();
  }
}

function toLine([position, source, time, text, bytes]: RawLine): LogLine {
  return { position, source, time, text, bytes };
}
