/** Keys within the output of a cell. */

/**
 * Keep keys to what has the focus in an output: a notebook would take them for its own, and `x`
 * would cut the cell of a running job. Escape goes back to the cell, where they are the notebook's.
 */
export function ownKeys(output: HTMLElement): void {
  // The mark must be on the very element: shortcuts of a notebook are for `:focus`.
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
