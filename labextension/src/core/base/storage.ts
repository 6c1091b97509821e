/** Things that views keep for the next time, as JSON among the small texts of the host. */

import type { Host } from './host';

type Keeper = Pick<Host, 'remember' | 'recall'>;

/** Keep a value under a name; null forgets it. */
export function keep(host: Keeper, name: string, value: unknown): void {
  host.remember?.(name, value === null ? '' : JSON.stringify(value));
}

/** Give what was kept as an object; an empty one where there is none, or no sensible one. */
export function kept<T extends object>(host: Keeper, name: string): Partial<T> {
  try {
    const value: unknown = JSON.parse(host.recall?.(name) ?? 'null');
    return value !== null && typeof value === 'object' && !Array.isArray(value) ? value : {};
  } catch {
    return {};
  }
}

const MOST = 50; // things of one kind, of which the one changed last is kept longest

/** Keep a value for one of many things, such as one job. */
export function keepFor(host: Keeper, name: string, key: string, value: object): void {
  const others = Object.entries(kept<Record<string, object>>(host, name));
  const rest = others.filter(([other]) => other !== key).slice(1 - MOST);
  keep(host, name, Object.fromEntries([...rest, [key, value]]));
}

/** Give what was kept for one of many things. */
export function keptFor<T extends object>(host: Keeper, name: string, key: string): Partial<T> {
  const all = kept<Record<string, Partial<T>>>(host, name);
  return (Object.hasOwn(all, key) ? all[key] : undefined) ?? {};
}
