/** Where a search matches in a line. The server decides which lines are hits; this only paints. */

import type { Piece } from './ansi';
import type { Pattern } from '../base/logprotocol';

/** Characters of a line that are looked at. */
export const LONGEST = 4096;
const MOST = 50; // matches of a line that are painted

/** Begin and end of a match. */
export type Span = readonly [number, number];

export interface Marker {
  find(text: string): readonly Span[];
}

/** Give what finds words; expressions are the server's to find (`expression.ts`). */
export function wordMarker(words: Pattern): Marker {
  const source = words.pattern.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
  const regex = new RegExp(source, words.case ? 'gu' : 'giu');
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

/** Cut pieces where matches begin and end. */
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
