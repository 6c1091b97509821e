/** The page of a widget, which may not be JupyterLab: its colours and its clipboard. */

import { render, type ComponentChild } from 'preact';

import { captureKeys } from '../core/base/keyboard';
import { onTheme } from '../core/plots/theme';

/** Render a view into a widget's element; return a function that removes it. */
export function draw(view: ComponentChild, el: HTMLElement, name: string): () => void {
  const root = el.appendChild(document.createElement('div'));
  captureKeys(root);
  root.className = `jaxtrain jaxtrain-widget ${name}`;
  const colour = () => {
    // Measure without our own colours: the page's may come later, as when JupyterLab switches themes.
    root.classList.remove('jaxtrain-alone');
    delete root.dataset['dark'];
    if (getComputedStyle(root).getPropertyValue('--jp-ui-font-color1') === '') {
      root.classList.add('jaxtrain-alone');
      root.dataset['dark'] = String(isDark(el));
    }
  };
  colour();
  const stop = onTheme(colour);
  render(view, root);
  return () => {
    stop();
    render(null, root);
    root.remove();
  };
}

/** Return whether the background of an element is dark: the one sign that all hosts have. */
export function isDark(element: Element): boolean {
  for (let each: Element | null = element; each; each = parentOf(each)) {
    const [red = 0, green = 0, blue = 0, alpha = 1] = numbers(
      getComputedStyle(each).backgroundColor
    );
    if (alpha > 0.5) {
      return 0.299 * red + 0.587 * green + 0.114 * blue < 128;
    }
  }
  const scheme = getComputedStyle(document.documentElement).colorScheme;
  const prefers = window.matchMedia('(prefers-color-scheme: dark)').matches;
  return scheme.includes('dark') && (prefers || !scheme.includes('light'));
}

/** Parse `rgb(1, 2, 3)`; other kinds of colours count as transparent. */
function numbers(colour: string): number[] {
  const found = /^rgba?\(([^)]*)\)$/.exec(colour)?.[1];
  return found === undefined ? [0, 0, 0, 0] : found.split(/[\s,/]+/).map(Number);
}

/** A view may be in a shadow tree. */
function parentOf(element: Element): Element | null {
  const root = element.getRootNode();
  return element.parentElement ?? (root instanceof ShadowRoot ? root.host : null);
}

/** Copy a text, also where the page has no clipboard API. */
export function copy(text: string): void {
  // A page without HTTPS has no clipboard, whatever the types say.
  const clipboard = navigator.clipboard as Clipboard | undefined;
  void (clipboard?.writeText(text) ?? Promise.reject(new Error('no clipboard'))).catch(() => {
    const area = document.body.appendChild(document.createElement('textarea'));
    area.value = text;
    area.style.cssText = 'position:fixed;opacity:0';
    area.select();
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- the only way that is left
    document.execCommand('copy');
    area.remove();
  });
}
