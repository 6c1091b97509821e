/** Notifications about jobs that have ended, and idle sessions that are about to end. */

import { Notification } from '@jupyterlab/apputils';

import { duration, sanitize, span } from '../core/base/format';
import type { Host } from '../core/base/host';
import type { Row } from '../core/base/protocol';
import type { JobsStore } from '../core/jobs/store';
import { ViewStorage } from './storage';

/** Which ends of jobs raise a notification: the setting `notify`. */
export type Notify = 'all' | 'failed' | 'none';

const SHORT = 10; // seconds; a cell of a session that takes less is no news unless it fails

/**
 * Notify that a job has ended, once in all pages of the browser, and offer to open it.
 *
 * There is no notification of what the user already sees: `isInView` tells.
 */
export async function notifyEnd(
  row: Row,
  host: Host,
  notify: Notify,
  isInView: (row: Row) => boolean = () => false
): Promise<void> {
  const failed = row.state === 'Failed';
  const quick = row.cell_of !== null && (row.elapsed ?? 0) < SHORT;
  if (notify === 'none' || ((notify === 'failed' || quick) && !failed)) {
    return;
  }
  if (!(await claimNotification(`${row.key} ${row.uid ?? row.created}`))) {
    return;
  }
  if (isInView(row)) {
    return; // claimed all the same, so that no other page shows it
  }
  const { trans } = host;
  const name = sanitize(row.name);
  const took = duration((row.ended ?? Date.now() / 1000) - row.created, trans);
  const actions = [{ label: trans.__('Open'), callback: () => host.open(row) }];
  const reason = row.reason ? sanitize(row.reason) : trans.__('unknown reason');
  if (failed) {
    Notification.error(trans.__('%1 failed after %2: %3', name, took, reason), {
      actions,
      autoClose: false
    });
  } else if (row.session) {
    Notification.info(trans.__('Session %1 ended after %2: %3', name, took, reason), {
      actions,
      autoClose: 10_000
    });
  } else if (row.state === 'Cancelled') {
    Notification.info(trans.__('%1 was cancelled after %2.', name, took), {
      actions,
      autoClose: 10_000
    });
  } else {
    Notification.success(trans.__('%1 succeeded in %2.', name, took), {
      actions,
      autoClose: 10_000
    });
  }
}

const SOON = 300; // seconds before the end of an idle session
const LATE = 5; // seconds of clock skew allowed between server and page

/** The notifications of idle sessions that this page shows, by the session's uid. */
const idle = new Map<string, { id: string; ends: number }>();

/**
 * Notify, once in all pages, that an idle session ends soon, and offer to prolong it.
 *
 * The notification goes when the session was prolonged elsewhere, is busy again, or has ended.
 */
export async function notifyIdle(row: Row, host: Host, notify: Notify): Promise<void> {
  const { idle_since: since = null, idle_ends: ends = null } = row.session ?? {};
  const session = row.uid ?? row.key;
  const shown = idle.get(session);
  if (shown && (!row.active || ends === null || Math.abs(ends - shown.ends) > LATE)) {
    idle.delete(session);
    Notification.dismiss(shown.id);
  }
  if (notify === 'none' || !row.active || since === null || ends === null) {
    return;
  }
  const left = ends - Date.now() / 1000;
  if (left <= 0 || left > Math.min(SOON, (ends - since) / 2) + LATE) {
    return;
  }
  if (!(await claimNotification(`idle ${session} ${Math.round(ends)}`))) {
    return;
  }
  const { trans } = host;
  const id = Notification.warning(
    trans.__(
      'Session %1 is idle and ends in %2. Its variables will be lost.',
      sanitize(row.name),
      span(left, trans)
    ),
    {
      actions: [
        { label: trans.__('Prolong'), callback: () => host.act(row, 'prolong') },
        { label: trans.__('Open'), callback: () => host.open(row) }
      ],
      autoClose: Math.max(1000, left * 1000)
    }
  );
  idle.set(session, { id, ends });
}

const MOST_MISSED = 5; // notifications; for more there is the list

/**
 * Report jobs that were active when the last page of this server was closed, and have ended since.
 *
 * `server` is the address of the server; several may share the browser's storage.
 */
export function notifyMissed(store: JobsStore, server: string, notify: (row: Row) => void): void {
  const browser = new ViewStorage(null); // for all workspaces
  const name = `active ${server}`;
  const left = new Set(browser.getItem(name)?.split(' '));
  let known: string | null = null;
  store.subscribe(() => {
    if (!store.loaded) {
      return;
    }
    const { rows } = store;
    const active = rows.flatMap(row => (row.active && row.uid) || []).join(' ');
    if (active !== known) {
      known = active;
      browser.setItem(name, active);
    }
    const ended = rows.filter(({ uid, active }) => !active && uid !== null && left.has(uid));
    left.clear();
    ended.slice(0, MOST_MISSED).forEach(notify);
  });
}

const SHOWN = 'jaxtrain:told';
const MOST_SHOWN = 200;
const UNFOCUSED_DELAY = 300; // milliseconds

/** Return whether no page of this browser has shown a notification yet; from then on one has. */
export async function claimNotification(name: string): Promise<boolean> {
  await pageVisible();
  if (!document.hasFocus()) {
    // Of several visible windows, the focused one shows it.
    await new Promise(resolve => setTimeout(resolve, UNFOCUSED_DELAY));
  }
  // Pages over plain HTTP have no locks; then two pages may show the same.
  const locks = (navigator as { locks?: LockManager }).locks;
  return locks ? await locks.request(SHOWN, () => claim(name)) : claim(name);
}

/** Wait until the page is visible: of several pages, a visible one shows the notification. */
async function pageVisible(): Promise<void> {
  if (document.hidden) {
    await new Promise<void>(resolve => {
      const check = () => {
        if (!document.hidden) {
          document.removeEventListener('visibilitychange', check);
          resolve();
        }
      };
      document.addEventListener('visibilitychange', check);
    });
  }
}

function claim(name: string): boolean {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(SHOWN) ?? '[]');
    const shown: unknown[] = Array.isArray(found) ? found : [];
    if (shown.includes(name)) {
      return false;
    }
    localStorage.setItem(SHOWN, JSON.stringify([...shown, name].slice(-MOST_SHOWN)));
  } catch {
    // A browser may refuse to store anything; twice is better than never.
  }
  return true;
}
