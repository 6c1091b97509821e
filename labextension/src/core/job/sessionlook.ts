/** What has to be polled from a session's ranks, while it is in view. */

import { useEffect, useState } from 'preact/hooks';

import type { Host } from '../base/host';
import type { Row, SessionLook } from '../base/protocol';

/** Milliseconds between looks. */
const INTERVAL = 3000;

/** Look at a session now; throws a `ServerError`. */
export async function lookAt({ key }: Row, host: Host): Promise<SessionLook | null> {
  return (await host.get?.<SessionLook>(`jobs/${encodeURIComponent(key)}/session`)) ?? null;
}

/** Return the memory of each rank of a live session, in bytes, kept up to date; false elsewhere. */
export function useMemory(row: Row, host: Host): readonly (number | null)[] | false {
  const [memory, setMemory] = useState<readonly (number | null)[]>([]);
  const live = row.session !== null && row.active && host.get !== undefined;
  const runs = live && row.state === 'Running';
  useEffect(() => {
    if (!runs) {
      setMemory([]);
      return;
    }
    let gone = false;
    let timer: number | undefined;
    const look = async () => {
      // Errors are shown elsewhere: a lost connection, or why the session ended.
      const found = await lookAt(row, host).catch(() => null);
      if (!gone) {
        setMemory(found?.memory ?? []);
        timer = window.setTimeout(() => void look(), INTERVAL);
      }
    };
    void look();
    return () => {
      gone = true;
      window.clearTimeout(timer);
    };
  }, [row.key, runs]);
  return live && memory;
}
