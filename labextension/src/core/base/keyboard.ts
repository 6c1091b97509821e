/** Keys pressed in the page, and those of a cell's output. */

const PAUSE = 1000; // milliseconds after a key in which another one is likely

let last = -Infinity;

if (typeof document !== 'undefined') {
  const seen = ({ target }: Event) => {
    if (!(target instanceof Element && target.closest('.jaxtrain-log'))) {
      last = performance.now(); // typing in a log is a search, whose results are wanted at once
    }
  };
  document.addEventListener('keydown', seen, { capture: true, passive: true });
}

/** Return whether the user is typing outside the logs: growing logs are drawn less often then. */
export function isTyping(): boolean {
  const since = performance.now() - last;
  return since >= 0 && since < PAUSE;
}

/**
 * Keep the notebook's shortcuts away from a focused element in an output: `x` would cut the cell of
 * a running job. Escape moves the focus to the cell, where the shortcuts work again.
 */
export function captureKeys(output: HTMLElement): void {
  // On the focused element itself: the notebook's shortcuts match `:focus`.
  output.addEventListener('focusin', ({ target }) => {
    if (target instanceof HTMLElement) {
      target.dataset['lmSuppressShortcuts'] = 'true';
    }
  });
  output.addEventListener('keydown', event => {
    const cell = output.closest<HTMLElement>('.jp-Cell');
    if (event.key === 'Escape' && cell) {
      event.preventDefault();
      cell.focus();
    }
  });
}
