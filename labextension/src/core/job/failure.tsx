import type { ComponentChildren } from 'preact';

import { sanitize } from '../base/format';
import type { Host } from '../base/host';
import { Prose } from '../base/prose';
import type { Failure, Row } from '../base/protocol';
import { ranksText } from '../base/ranks';
import type { Translator } from '../base/translator';

/** What is known of the first cause of a failed job, checked. */
export interface Cause {
  rank: number | null;
  kind: string;
  message: string;
  traceback: string;
  /** The line of the cell or the file where it was raised; that of a magic is the first. */
  line: number | null;
  others: number[];
  log: string[];
  /** What the rank's memory was before it ran out. */
  usage: string[];
  container: string | null;
  hint: string | null;
}

/** Read a failure; fields that a later version writes differently are ignored. */
export function causeOf(failure: Failure): Cause {
  const said = failure as unknown as Record<string, unknown>;
  const error = (
    typeof failure.error === 'object' && failure.error !== null ? failure.error : {}
  ) as Record<string, unknown>;
  const text = (value: unknown) => (typeof value === 'string' ? sanitize(value) : '');
  const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
  const lines = (name: string) =>
    list(said[name])
      .filter(line => typeof line === 'string')
      .map(sanitize);
  return {
    rank: typeof said['rank'] === 'number' ? said['rank'] : null,
    kind: failure.kind,
    message: text(failure.message),
    traceback: text(error['traceback']),
    line: typeof error['cell_line'] === 'number' ? error['cell_line'] : null,
    others: list(failure.others).filter(rank => typeof rank === 'number'),
    log: lines('log'),
    usage: lines('usage'),
    container: text(said['container']) || null,
    hint: text(said['hint']) || text(error['hint']) || null
  };
}

function kindLabel(kind: string, trans: Translator): string {
  const known: Record<string, string> = {
    error: trans.__('exception'),
    exit: trans.__('exited early'),
    killed: trans.__('killed'),
    memory: trans.__('out of memory'),
    aborted: trans.__('aborted'),
    crashed: trans.__('crashed'),
    rendezvous: trans.__('rendezvous timed out'),
    timeout: trans.__('timeout'),
    hang: trans.__('hung'),
    disk: trans.__('disk full'),
    supervisor: trans.__('supervisor'),
    start: trans.__('failed to start'),
    cluster: trans.__('cluster')
  };
  return (known as Partial<Record<string, string>>)[kind] ?? sanitize(kind);
}

interface FailureProps {
  row: Row;
  cause: Cause;
  host: Host;
  /** What stands at the head of it. */
  children?: ComponentChildren;
}

/** Why a job failed, and what to do about it. */
export function FailureBox({ row, cause, host, children }: FailureProps) {
  const { trans } = host;
  const { rank, kind, message, traceback, others, log, usage, container } = cause;
  const reason = row.reason ? sanitize(row.reason) : '';
  const hint = cause.hint ?? (row.hint ? sanitize(row.hint) : null);
  const who =
    rank === null
      ? trans.__('The job failed')
      : others.length > 0
        ? trans.__('rank %1 failed first', rank)
        : trans.__('rank %1 failed', rank);
  const [head = '', ...rest] = message.split('\n');
  const more = rest.join('\n').trim();
  const whose = container ?? (rank === null ? trans.__('the log') : trans.__('rank %1', rank));
  const stopped = ranksText(others, trans);
  return (
    <div class="jaxtrain-why jaxtrain-failure" role="group" aria-label={trans.__('Failure')}>
      {children}
      <p>
        <b>{who}</b>
        <span class="jaxtrain-kind">{kindLabel(kind, trans)}</span>
        {head}
      </p>
      {more && !traceback.includes(more) && <pre tabIndex={0}>{more}</pre>}
      {others.length > 0 && (
        <p class="jaxtrain-quiet">{trans.__('%1 stopped because of it.', stopped)}</p>
      )}
      {reason && !head.includes(reason) && !(head && reason.includes(head)) && (
        <p class="jaxtrain-quiet">{reason}</p>
      )}
      {hint && (
        <p class="jaxtrain-hint">
          <Prose text={hint} />
        </p>
      )}
      {usage.map(line => (
        <p key={line} class="jaxtrain-quiet">
          {line}
        </p>
      ))}
      {traceback && (
        <pre class="jaxtrain-traceback" tabIndex={0} aria-label={trans.__('Traceback')}>
          {marked(traceback)}
        </pre>
      )}
      {log.length > 0 && (
        <>
          <p class="jaxtrain-quiet">{trans.__('The last lines of %1:', whose)}</p>
          <pre tabIndex={0} aria-label={trans.__('The last lines of %1', whose)}>
            {log.join('\n')}
          </pre>
        </>
      )}
      <p class="jaxtrain-tools">
        {rank !== null && host.openLog && !container && (
          <button
            type="button"
            class="jaxtrain-button"
            onClick={() => host.openLog?.(row.key, rank)}
          >
            {trans.__('Open the log of rank %1', rank)}
          </button>
        )}
        {traceback && (
          <button type="button" class="jaxtrain-button" onClick={() => host.copy(traceback)}>
            {trans.__('Copy traceback')}
          </button>
        )}
      </p>
    </div>
  );
}

/** A frame of a cell: frames of modules begin with `File`. */
const OWN = /^ {2}(?!File ")\S[^,]*, line \d+/;

/** Set off the lines of the cell, and the last line, which says what was raised. */
function marked(traceback: string) {
  const lines = traceback.split('\n');
  return lines.map((line, index) => {
    const text = index < lines.length - 1 ? `${line}\n` : line;
    const own = OWN.test(line);
    const code = index > 0 && OWN.test(lines[index - 1] ?? '');
    const last = index === lines.length - 1;
    return own || code ? (
      <b key={index}>{text}</b>
    ) : last ? (
      <b key={index} class="jaxtrain-raised">
        {text}
      </b>
    ) : (
      text
    );
  });
}
