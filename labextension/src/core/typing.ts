/** Whether somebody types in this page: what nobody waits for is drawn less often meanwhile. */

const PAUSE = 1000; // milliseconds after a key in which the next one is likely

let last = -Infinity;

if (typeof document !== 'undefined') {
  const seen = () => (last = performance.now());
  document.addEventListener('keydown', seen, { capture: true, passive: true });
}

export function typing(): boolean {
  const since = performance.now() - last;
  return since >= 0 && since < PAUSE;
}
