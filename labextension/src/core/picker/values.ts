import type { Line, Values } from './types';

export const NO_LINE: Line = { found: false, line: '', values: {}, errors: [], ask: null };

export function json(value: unknown): string {
  return JSON.stringify(value ?? null);
}

/** Put changes on top of values; what they take away is not in them any more. */
export function merged(values: Values, changes: Values): Values {
  const all = Object.entries({ ...values, ...changes });
  return Object.fromEntries(all.filter(([, value]) => value !== null));
}
