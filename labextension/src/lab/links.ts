/** Addresses of pages that open a log at a line. */

import type { Source } from '../core/base/protocol';

const KEY = 'jaxtrain-log';
const LINE = 'line';
const CONTAINER = 'container';

/** The addresses that the router passes on. */
export const LINK = /[?&]jaxtrain-log=/;

export interface LogLink {
  key: string;
  /** The position of the line; null: the end. */
  line: number | null;
  container: string | null;
}

/** Return the address of a page with a log and a line, without its other parameters. */
export function linkTo(page: string, key: string, position: number, source: Source | null): string {
  const url = new URL(page);
  url.search = url.hash = '';
  url.searchParams.set(KEY, key);
  url.searchParams.set(LINE, String(position + 1));
  if (typeof source === 'string') {
    url.searchParams.set(CONTAINER, source);
  }
  return url.href;
}

/** Parse the query of an address. */
export function readLink(search: string): LogLink | null {
  const query = new URLSearchParams(search);
  const key = query.get(KEY);
  const line = Number(query.get(LINE));
  if (!key) {
    return null;
  }
  return {
    key,
    line: Number.isSafeInteger(line) && line > 0 ? line - 1 : null,
    container: query.get(CONTAINER)
  };
}

/** Return an address (without its host) without the log, so that a reload does not open it again. */
export function withoutLink(path: string): string {
  const url = new URL(path, 'http://here');
  [KEY, LINE, CONTAINER].forEach(name => url.searchParams.delete(name));
  return url.pathname + url.search + url.hash;
}
