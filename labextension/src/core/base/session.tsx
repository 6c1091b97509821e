/** What a session does: the cell that it runs, or how long it may still be idle. */

import { useCallback } from 'preact/hooks';

import { sanitize, span } from './format';
import { useTimedText } from './hooks';
import type { Row } from './protocol';
import type { Translator } from './translator';

/** Return what a session does, at a time, or why it ended; empty while its ranks start. */
export function standing(row: Row, now: number, trans: Translator): string {
  const { session, state, reason } = row;
  if (!session || state !== 'Running') {
    return session && state === 'Succeeded' ? sanitize(reason ?? '') : '';
  }
  const { idle_since: since, idle_ends: ends, running, waiting } = session;
  if (running !== null) {
    const runs = trans.__('runs %1', sanitize(running));
    return waiting > 0 ? `${runs} · ${trans._n('%1 cell waits', '%1 cells wait', waiting)}` : runs;
  }
  if (since === null) {
    return trans.__('starting');
  }
  const then =
    ends === null
      ? trans.__('does not end by itself')
      : ends > now
        ? trans.__('ends in %1', span(ends - now, trans))
        : trans.__('ends now');
  return `${trans.__('idle for %1', span(now - since, trans))} · ${then}`;
}

/** What a session does, kept up to date. */
export function Standing({ row, trans }: { row: Row; trans: Translator }) {
  return <>{useTimedText(useCallback((now: number) => standing(row, now, trans), [row, trans]))}</>;
}

interface SessionLinkProps {
  row: Row;
  trans: Translator;
  /** Shows the session, where there is a place for that. */
  open: ((job: Pick<Row, 'key' | 'name'>) => void) | undefined;
}

/** The session that runs a cell, as a link to it. */
export function SessionLink({ row, trans, open }: SessionLinkProps) {
  const key = row.cell_of?.key; // a saved notebook may have none, or anything
  if (typeof key !== 'string') {
    return null;
  }
  const text = trans.__('session %1', sanitize(key));
  return open ? (
    <button
      type="button"
      class="jaxtrain-link"
      title={trans.__('Open the session')}
      onClick={() => open({ key, name: key })}
    >
      {text}
    </button>
  ) : (
    <span>{text}</span>
  );
}
