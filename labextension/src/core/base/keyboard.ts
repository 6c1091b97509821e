/** Whether somebody types beside the logs: what nobody waits for is drawn less often meanwhile. */

const PAUSE = 1000; // milliseconds after a key in which the next one is likely

let last = -Infinity;

if (typeof document !== 'undefined') {
  const seen = ({ target }: Event) => {
    if (!(target instanceof Element && target.closest('.jaxtrain-log'))) {
      last = performance.now(); // who types in a log, to search it, waits for what that shows
    }
  };
  document.addEventListener('keydown', seen, { capture: true, passive: true });
}

export function typing(): boolean {
  const since = performance.now() - last;
  return since >= 0 && since < PAUSE;
}
