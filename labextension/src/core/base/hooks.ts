import { useEffect, useLayoutEffect, useReducer, useRef, useState } from 'preact/hooks';

import type { Watched } from './observable';

/** Render again whenever the source says that it has changed. */
export function useWatched(source: Watched): void {
  const [, again] = useReducer<number, undefined>(n => n + 1, 0);
  useLayoutEffect(() => source.watch(() => again(undefined)), [source]);
}

const ticks = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

/** One timer for all that changes with time; it runs while somebody looks. */
function onTick(listener: () => void): () => void {
  ticks.add(listener);
  timer ??= setInterval(() => ticks.forEach(tick => tick()), 1000);
  return () => {
    ticks.delete(listener);
    if (ticks.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** Give what has the focus in the tree of an element: the page of a widget may have shadow trees. */
export function focusNear(element: HTMLElement | null): HTMLElement | null {
  const root = element?.getRootNode();
  const { activeElement } = root instanceof ShadowRoot ? root : document;
  return activeElement instanceof HTMLElement ? activeElement : null;
}

/** When what has the focus within `place` goes away, give the focus to what `next` gives. */
export function useHeldFocus(
  place: { current: HTMLElement | null },
  next: () => HTMLElement | null | undefined
): void {
  const isHeld = () => place.current?.contains(focusNear(place.current)) ?? false;
  const held = isHeld();
  useLayoutEffect(() => {
    if (held && !isHeld()) {
      next()?.focus();
    }
  });
}

/** Tell whether something is so, or has been since the view is there. */
export function useEver(now: boolean): boolean {
  const ever = useRef(false);
  ever.current ||= now;
  return ever.current;
}

/** Give a text that depends on the time (in seconds); render again only when it is another one. */
export function useTimed(text: (now: number) => string): string {
  const [, setShown] = useState('');
  useEffect(() => {
    const update = () => setShown(text(Date.now() / 1000));
    update();
    return onTick(update);
  }, [text]);
  return text(Date.now() / 1000);
}
