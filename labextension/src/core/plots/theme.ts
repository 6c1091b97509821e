/** The colours of plots. A canvas takes no CSS variables, so they are read for each theme. */

export interface Colours {
  series: string[];
  text: string;
  grid: string;
  background: string;
}

/** The number of colours; further lines reuse them with other dashes. */
export const SERIES = 5;

const DASHES = [[], [6, 4], [2, 3], [8, 3, 2, 3]];

/** Return the dashes of a line, so that lines differ without their colours, too. */
export function dashOf(index: number): number[] {
  return DASHES[(index + Math.floor(index / SERIES)) % DASHES.length] ?? [];
}

/** Read the colours that hold where `element` is. */
export function coloursAt(element: HTMLElement): Colours {
  const probe = element.appendChild(document.createElement('span'));
  probe.hidden = true;
  const read = (value: string, otherwise: string) => {
    probe.style.color = value;
    return getComputedStyle(probe).color || otherwise;
  };
  // With forced colours, backgrounds get other colours than text.
  probe.style.backgroundColor = 'var(--jp-layout-color1, Canvas)';
  const background = getComputedStyle(probe).backgroundColor || '#ffffff';
  const colours = {
    series: Array.from({ length: SERIES }, (_, index) =>
      read(`var(--jaxtrain-series-${index + 1})`, '#1565c0')
    ),
    text: read('var(--jaxtrain-quiet)', '#616161'),
    grid: read('var(--jaxtrain-line)', '#dddddd'),
    background
  };
  probe.remove();
  return colours;
}

/** Call `changed` when the theme has changed; return a function that stops it. */
export function onTheme(changed: () => void): () => void {
  const name = () =>
    ['data-jp-theme-name', 'data-jp-theme-light', 'class']
      .map(attribute => document.body.getAttribute(attribute))
      .join(' ');
  let last = name();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = () => {
    // A theme's style sheet loads a little after its name is set, or much later on a slow network.
    clearTimeout(timer);
    timer = setTimeout(changed, 100);
  };
  const onLoad = ({ target }: Event) => {
    if (target instanceof HTMLLinkElement) {
      look();
    }
  };
  document.addEventListener('load', onLoad, true);
  const observer = new MutationObserver(() => {
    if (name() !== last) {
      last = name();
      look();
    }
  });
  observer.observe(document.body, { attributes: true });
  const queries = ['(prefers-color-scheme: dark)', '(forced-colors: active)'].map(query =>
    window.matchMedia(query)
  );
  queries.forEach(query => query.addEventListener('change', look));
  return () => {
    clearTimeout(timer);
    observer.disconnect();
    document.removeEventListener('load', onLoad, true);
    queries.forEach(query => query.removeEventListener('change', look));
  };
}
