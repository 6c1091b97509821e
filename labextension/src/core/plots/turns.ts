/** Drawings take turns, one in a frame: all plots of a page at once would hold it up. */

const waiting = new Map<object, () => void>();
let asked = false;

/** Draw something in one of the next frames, in the place of what is still to be drawn there. */
export function drawInTurn(place: object, draw: () => void): void {
  waiting.set(place, draw);
  ask();
}

/** Draw nothing more in a place. */
export function forgetTurn(place: object): void {
  waiting.delete(place);
}

function ask(): void {
  if (!asked && waiting.size > 0) {
    asked = true;
    requestAnimationFrame(drawNext);
  }
}

function drawNext(): void {
  asked = false;
  const next = [...waiting.keys()][0];
  const draw = next && waiting.get(next);
  if (next && draw) {
    waiting.delete(next);
    ask();
    draw();
  }
}
