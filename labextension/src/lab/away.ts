import type { Row } from '../core/protocol';
import type { JobsStore } from '../core/stores';

const STORE = 'jaxtrain:active ';
const MOST = 5; // more are no news but a list, and that is there

/**
 * Tell which jobs have ended since the last page of a server was left: those that it saw active.
 *
 * `server` is the address of the server; several may share what a browser keeps.
 */
export function tellAway(store: JobsStore, server: string, tell: (row: Row) => void): void {
  const name = STORE + server;
  let left: unknown[] | null = read(name);
  let written = '';
  store.watch(() => {
    if (!store.loaded) {
      return;
    }
    const { rows } = store;
    const ended = rows.filter(({ uid, active }) => !active && uid !== null && left?.includes(uid));
    left = null;
    const active = JSON.stringify(rows.filter(row => row.active).map(({ uid }) => uid));
    if (active !== written) {
      written = active;
      write(name, active);
    }
    ended.slice(0, MOST).forEach(tell);
  });
}

function read(name: string): unknown[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(name) ?? '[]');
    return Array.isArray(found) ? found : [];
  } catch {
    return [];
  }
}

function write(name: string, text: string): void {
  try {
    localStorage.setItem(name, text);
  } catch {
    // A browser may refuse to store anything.
  }
}
