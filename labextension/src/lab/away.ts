import type { Row } from '../core/base/protocol';
import type { JobsStore } from '../core/job/stores';
import { Memory } from './storage';

const MOST = 5; // more are no news but a list, and that is there

/**
 * Tell which jobs have ended since the last page of a server was left: those that it saw active.
 *
 * `server` is the address of the server; several may share what a browser keeps.
 */
export function tellAway(store: JobsStore, server: string, tell: (row: Row) => void): void {
  const browser = new Memory(null); // whatever the workspace
  const name = `active ${server}`;
  const left = new Set(browser.recall(name)?.split(' '));
  let known: string | null = null;
  store.watch(() => {
    if (!store.loaded) {
      return;
    }
    const { rows } = store;
    const active = rows.flatMap(row => (row.active && row.uid) || []).join(' ');
    if (active !== known) {
      known = active;
      browser.remember(name, active);
    }
    const ended = rows.filter(({ uid, active }) => !active && uid !== null && left.has(uid));
    left.clear();
    ended.slice(0, MOST).forEach(tell);
  });
}
