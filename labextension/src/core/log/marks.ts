/** Where a search matches in a line. The server decides which lines are hits; this only paints. */

import type { Piece } from './ansi';
import type { Pattern } from './protocol';

const LONGEST = 4096; // characters of a line that are looked at
const MOST = 50; // matches of a line that are painted
const SLOW = 20; // milliseconds for one line: a pattern that needs more is not tried again

export interface Marker {
  /** Give begins and ends of matches. */
  find(text: string): [number, number][];
}

// What RE2 reads in another way than a browser does.
const FOREIGN = /\(\?[a-zA-Z-]+[:)]|\(\?P|\\[QEACpPzZ]|\[\[:/;
// A group that repeats something and is repeated: a browser may need for ever.
const EXPLODES = /\((?:[^()\\]|\\.|\([^()]*\))*(?:[*+}|]|\{\d+,)(?:[^()\\]|\\.|\([^()]*\))*\)[*+{]/;

/** Give what finds a pattern in text, or null where only the server can. */
export function marker(pattern: Pattern): Marker | null {
  if (!pattern.pattern || (pattern.regex && risky(pattern.pattern))) {
    return null;
  }
  const source = pattern.regex
    ? pattern.pattern
    : pattern.pattern.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
  let regex: RegExp;
  try {
    regex = new RegExp(source, pattern.case ? 'gu' : 'giu');
  } catch {
    return null;
  }
  let slow = false;
  return {
    find: text => {
      if (slow) {
        return [];
      }
      const began = performance.now();
      const found: [number, number][] = [];
      for (const match of text.slice(0, LONGEST).matchAll(regex)) {
        if (match[0]) {
          found.push([match.index, match.index + match[0].length]);
        }
        if (found.length >= MOST) {
          break;
        }
      }
      slow = performance.now() - began > SLOW;
      return found;
    }
  };
}

function risky(source: string): boolean {
  return FOREIGN.test(source) || EXPLODES.test(source);
}

export interface MarkedPiece extends Piece {
  marked: boolean;
}

/** Cut pieces where matches begin and end. */
export function mark(pieces: readonly Piece[], found: readonly [number, number][]): MarkedPiece[] {
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
