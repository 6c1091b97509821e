import { useEffect, useLayoutEffect, useReducer, useRef, useState } from 'preact/hooks';

import type { Subscribable } from './observable';
import { Throttle } from './throttle';

/** Render again after each change of the source. */
export function useObservable(source: Subscribable): void {
  const [, again] = useReducer<number, undefined>(n => n + 1, 0);
  useLayoutEffect(() => source.subscribe(() => again(undefined)), [source]);
}

/** Render again after changes of the sources, but no more often than once in `interval` ms. */
export function useThrottled(sources: readonly Subscribable[], interval: number): void {
  const [, again] = useReducer<number, undefined>(n => n + 1, 0);
  useEffect(() => {
    const throttle = new Throttle(() => again(undefined), interval, { leading: false });
    const stops = sources.map(source => source.subscribe(() => throttle.request()));
    throttle.request(); // a source may have changed before this
    return () => {
      throttle.cancel();
      stops.forEach(stop => stop());
    };
  }, [interval, ...sources]);
}

const ticks = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

/** One timer for all texts that change with time; it runs while there is one. */
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

/** Return the focused element in the tree of an element: widgets may be in shadow trees. */
export function activeElementNear(element: HTMLElement | null): HTMLElement | null {
  const root = element?.getRootNode();
  const { activeElement } = root instanceof ShadowRoot ? root : document;
  return activeElement instanceof HTMLElement ? activeElement : null;
}

/** Focus what `next` returns when the focused element within `place` is removed. */
export function useFocusFallback(
  place: { current: HTMLElement | null },
  next: () => HTMLElement | null | undefined
): void {
  const isHeld = () => place.current?.contains(activeElementNear(place.current)) ?? false;
  const held = isHeld();
  useLayoutEffect(() => {
    if (held && !isHeld()) {
      next()?.focus();
    }
  });
}

/** Return whether a condition holds, or has held since the view was mounted. */
export function useLatch(now: boolean): boolean {
  const ever = useRef(false);
  ever.current ||= now;
  return ever.current;
}

/** Return a text that depends on the time (in seconds); render again only when it changes. */
export function useTimedText(text: (now: number) => string): string {
  const [, setShown] = useState('');
  useEffect(() => {
    const update = () => setShown(text(Date.now() / 1000));
    update();
    return onTick(update);
  }, [text]);
  return text(Date.now() / 1000);
}
