import type { ComponentChildren } from 'preact';

import { plain } from '../base/format';
import type { Host } from '../base/host';
import type { Failure, Row } from '../base/protocol';
import type { Words } from '../base/translator';
import { Said } from '../base/prose';
import { ranksText } from './texts';

/** What is known of the first cause of a failed job, checked. */
export interface Cause {
  rank: number | null;
  kind: string;
  message: string;
  traceback: string;
  /** The line of the cell where it was raised; the line of the magic is the first. */
  line: number | null;
  others: number[];
  log: string[];
  container: string | null;
  hint: string | null;
}

/** Read a failure; what a later version says in another way is left out. */
export function causeOf(failure: Failure): Cause {
  const said = failure as unknown as Record<string, unknown>;
  const error = (
    typeof failure.error === 'object' && failure.error !== null ? failure.error : {}
  ) as Record<string, unknown>;
  const text = (value: unknown) => (typeof value === 'string' ? plain(value) : '');
  const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
  return {
    rank: typeof said['rank'] === 'number' ? said['rank'] : null,
    kind: failure.kind,
    message: text(failure.message),
    traceback: text(error['traceback']),
    line:
      typeof error['cell_line'] === 'number' && text(error['cell']).startsWith('Cell')
        ? error['cell_line']
        : null,
    others: list(failure.others).filter(rank => typeof rank === 'number'),
    log: list(said['log'])
      .filter(line => typeof line === 'string')
      .map(plain),
    container: text(said['container']) || null,
    hint: text(said['hint']) || text(error['hint']) || null
  };
}

function kindWord(kind: string, words: Words): string {
  const known: Record<string, string> = {
    error: words.__('exception'),
    exit: words.__('ended early'),
    killed: words.__('killed'),
    memory: words.__('out of memory'),
    aborted: words.__('aborted'),
    crashed: words.__('crashed'),
    rendezvous: words.__('no rendezvous'),
    timeout: words.__('timeout'),
    disk: words.__('disk full'),
    supervisor: words.__('supervisor'),
    start: words.__('did not start'),
    cluster: words.__('cluster')
  };
  return (known as Partial<Record<string, string>>)[kind] ?? plain(kind);
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
  const { words } = host;
  const { rank, kind, message, traceback, others, log, container } = cause;
  const reason = row.reason ? plain(row.reason) : '';
  const hint = cause.hint ?? (row.hint ? plain(row.hint) : null);
  const who =
    rank === null
      ? words.__('The job failed')
      : others.length > 0
        ? words.__('rank %1 failed first', rank)
        : words.__('rank %1 failed', rank);
  const [head = '', ...rest] = message.split('\n');
  const more = rest.join('\n').trim();
  const whose = container ?? (rank === null ? words.__('the log') : words.__('rank %1', rank));
  const stopped = ranksText(others, words);
  return (
    <div class="jaxtrain-why jaxtrain-failure" role="group" aria-label={words.__('Failure')}>
      {children}
      <p>
        <b>{who}</b>
        <span class="jaxtrain-kind">{kindWord(kind, words)}</span>
        {head}
      </p>
      {more && !traceback.includes(more) && <pre tabIndex={0}>{more}</pre>}
      {others.length > 0 && (
        <p class="jaxtrain-quiet">{words.__('%1 stopped because of it.', stopped)}</p>
      )}
      {reason && !head.includes(reason) && !(head && reason.includes(head)) && (
        <p class="jaxtrain-quiet">{reason}</p>
      )}
      {hint && (
        <p class="jaxtrain-hint">
          <Said text={hint} />
        </p>
      )}
      {traceback && (
        <pre class="jaxtrain-traceback" tabIndex={0} aria-label={words.__('Traceback')}>
          {marked(traceback)}
        </pre>
      )}
      {log.length > 0 && (
        <>
          <p class="jaxtrain-quiet">{words.__('The last lines of %1:', whose)}</p>
          <pre tabIndex={0} aria-label={words.__('The last lines of %1', whose)}>
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
            {words.__('Open the log of rank %1', rank)}
          </button>
        )}
        {traceback && (
          <button type="button" class="jaxtrain-button" onClick={() => host.copy(traceback)}>
            {words.__('Copy traceback')}
          </button>
        )}
      </p>
    </div>
  );
}

const OWN = /^ {2}Cell[^,]*, line \d+/;

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
