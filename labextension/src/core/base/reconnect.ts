/** When to reconnect: after a delay, after sleep, and after silence. */

// Intervals, in milliseconds: before the second try and, at most, before each later one; between looks
// at the clock, and at how long a server has been silent. Too long is what that server says.
const FIRST = 500;
const MOST = 30_000;
const LOOK = 15_000;
const LISTEN = 5_000;
// A page in the background gets its timers once a minute: only a longer gap was a sleep.
const SLEPT = 150_000;

/** Return `first` doubled `n` times, and at most `most`. */
export function doubled(n: number, first: number, most: number): number {
  return Math.min(most, first * 2 ** Math.min(n, 16));
}

/** Return the milliseconds before attempt `n` (from 0): exponential backoff with jitter. */
export function backOff(n: number, random: () => number = Math.random): number {
  const most = doubled(n, FIRST, MOST);
  return most / 2 + (random() * most) / 2;
}

/** Call `woke` when the clock has jumped, as it does when a laptop was closed; return a function that stops it. */
export function onWake(woke: () => void): () => void {
  let last = Date.now();
  const timer = setInterval(() => {
    const now = Date.now();
    const gap = now - last;
    last = now;
    if (gap > SLEPT) {
      woke();
    }
  }, LOOK);
  return () => clearInterval(timer);
}

/**
 * Call `dead` when the connection has been silent for over `most` ms; return a function that stops this.
 *
 * Without `most`, silence means nothing.
 */
export function onSilence(
  silent: () => number,
  most: number | undefined,
  dead: () => void
): () => void {
  if (most === undefined) {
    return () => {};
  }
  const timer = setInterval(() => {
    if (silent() > most) {
      dead();
    }
  }, LISTEN);
  return () => clearInterval(timer);
}
