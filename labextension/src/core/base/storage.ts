/** JSON values that views keep in the host's storage. */

import type { Host } from './host';

export type ItemStorage = Pick<Host, 'setItem' | 'getItem'>;

/** Store a value under a name; null removes it. */
export function saveItem(host: ItemStorage, name: string, value: unknown): void {
  host.setItem?.(name, value === null ? '' : JSON.stringify(value));
}

/** Return the stored object; an empty one if there is none, or something else. */
export function loadItem<T extends object>(host: ItemStorage, name: string): Partial<T> {
  try {
    const value: unknown = JSON.parse(host.getItem?.(name) ?? 'null');
    return value !== null && typeof value === 'object' && !Array.isArray(value) ? value : {};
  } catch {
    return {};
  }
}

const MOST = 50; // entries under one name; the one changed last is kept longest

/** Store a value for one key among many, such as one job. */
export function saveItemFor(host: ItemStorage, name: string, key: string, value: object): void {
  const others = Object.entries(loadItem<Record<string, object>>(host, name));
  const rest = others.filter(([other]) => other !== key).slice(1 - MOST);
  saveItem(host, name, Object.fromEntries([...rest, [key, value]]));
}

/** Return what is stored for one key. */
export function loadItemFor<T extends object>(
  host: ItemStorage,
  name: string,
  key: string
): Partial<T> {
  const all = loadItem<Record<string, Partial<T>>>(host, name);
  return (Object.hasOwn(all, key) ? all[key] : undefined) ?? {};
}
