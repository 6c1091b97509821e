import { useEffect, useReducer } from 'preact/hooks';

import type { Watched } from './observable';

/** Render again when one of the sources has changed, but no more often than every `ms`. */
export function useThrottled(sources: readonly Watched[], ms: number): void {
  const [, again] = useReducer<number, undefined>(n => n + 1, 0);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const changed = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        again(undefined);
      }, ms);
    };
    const stops = sources.map(source => source.watch(changed));
    changed(); // something may have come before this
    return () => {
      clearTimeout(timer);
      stops.forEach(stop => stop());
    };
  }, [ms, ...sources]);
}
