import type { ErrorInfo } from './errors';
import { sanitize } from './format';
import type { Host } from './host';
import { CodeBlock, Prose } from './prose';
import type { Problem } from './protocol';

const ENABLE = 'jupyter server extension enable jupyter_jax_trainer.server';

interface Fails {
  problem: Problem | null;
  error: ErrorInfo | null;
}

/** Return what is wrong with the connection, else the error of the server. */
export function problemOf({ problem, error }: Fails): Problem | null {
  return problem ?? (error && { message: error.message, hint: error.hint, kind: 'other' });
}

/** Why something cannot be shown, and what to do about it. */
export function ProblemNote(props: { problem: Problem; host: Host; retry: () => void }) {
  const { problem, host, retry } = props;
  const { trans } = host;
  const again = (
    <button type="button" class="jaxtrain-button" onClick={retry}>
      {trans.__('Try again')}
    </button>
  );
  if (problem.kind === 'missing') {
    return (
      <div class="jaxtrain-note" role="alert">
        <h3>{trans.__('Server extension not found')}</h3>
        <p>{trans.__('Jobs are read by a Jupyter server extension, which is not running.')}</p>
        <p>
          {trans.__(
            'Install the same version of the package in the environment of the Jupyter server, and enable the extension:'
          )}
        </p>
        <CodeBlock text={ENABLE} host={host} />
        <p>{trans.__('Then restart the Jupyter server.')}</p>
        {again}
      </div>
    );
  }
  const title = {
    refused: trans.__('No permission to see the jobs of this server'),
    unreachable: trans.__('The Jupyter server is not responding'),
    shut: trans.__('No connection to the Jupyter server'),
    other: trans.__('This cannot be shown')
  }[problem.kind];
  const next = {
    refused: trans.__('Log in again, or ask the administrator of this server.'),
    unreachable: trans.__('Jobs keep running. This page reconnects automatically.'),
    shut: trans.__(
      'The server responds, but no WebSocket can be opened: too many pages may be open, or a proxy blocks WebSockets. This page reconnects automatically.'
    ),
    other: ''
  }[problem.kind];
  return (
    <div class="jaxtrain-note" role="alert">
      <h3>{title}</h3>
      {problem.kind !== 'unreachable' && problem.message && <p>{sanitize(problem.message)}</p>}
      {problem.hint && (
        <p>
          <Prose text={problem.hint} />
        </p>
      )}
      {next && <p>{next}</p>}
      {again}
    </div>
  );
}

/** Shown above content that may be out of date while there is no connection. */
export function StaleNotice({ host, retry }: { host: Host; retry: () => void }) {
  return (
    <div class="jaxtrain-stale" role="status">
      <span>{host.trans.__('Disconnected: this may be out of date.')}</span>
      <button type="button" class="jaxtrain-button" onClick={retry}>
        {host.trans.__('Reconnect now')}
      </button>
    </div>
  );
}
