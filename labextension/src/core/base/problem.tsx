import type { Host } from './host';
import type { Problem } from './protocol';
import { plain } from './format';
import { Said } from './prose';

const ENABLE = 'jupyter server extension enable jupyter_jax_trainer.server';
const LOAD = '%load_ext jupyter_jax_trainer';
const CELL = '%%jaxtrain -n 2\nimport jax\nprint(jax.devices())';

/** Something to type, with a button that copies it. */
function Code({ text, host }: { text: string; host: Host }) {
  return (
    <div class="jaxtrain-code">
      <pre>{text}</pre>
      <button type="button" class="jaxtrain-button" onClick={() => host.copy(text)}>
        {host.words.__('Copy')}
      </button>
    </div>
  );
}

/** What to do when there is no job yet. */
export function NoJobs({ host }: { host: Host }) {
  const { words } = host;
  return (
    <div class="jaxtrain-note">
      <h3>{words.__('No jobs yet')}</h3>
      <p>{words.__('Run this once in a notebook:')}</p>
      <Code text={LOAD} host={host} />
      <p>{words.__('Then a cell like this one becomes a training job on two processes:')}</p>
      <Code text={CELL} host={host} />
      <p>{words.__('It appears here while it runs, and stays when it has ended.')}</p>
    </div>
  );
}

interface Fails {
  problem: Problem | null;
  error: { message: string; hint: string | null } | null;
}

/** Give what is wrong: with the connection, else what the server said. */
export function problemOf({ problem, error }: Fails): Problem | null {
  return problem ?? (error && { message: error.message, hint: error.hint, kind: 'other' });
}

/** Why there is no list, and what to do about it. */
export function Trouble(props: { problem: Problem; host: Host; retry: () => void }) {
  const { problem, host, retry } = props;
  const { words } = host;
  const again = (
    <button type="button" class="jaxtrain-button" onClick={retry}>
      {words.__('Try again')}
    </button>
  );
  if (problem.kind === 'missing') {
    return (
      <div class="jaxtrain-note" role="alert">
        <h3>{words.__('The server part is not there')}</h3>
        <p>
          {words.__('Jobs are read by an extension of the Jupyter server, and it does not run.')}
        </p>
        <p>
          {words.__(
            'Install the package in the environment of the Jupyter server, from the same source as here, and enable the extension:'
          )}
        </p>
        <Code text={ENABLE} host={host} />
        <p>{words.__('Then start the Jupyter server again.')}</p>
        {again}
      </div>
    );
  }
  const title = {
    refused: words.__('You may not see the jobs of this server'),
    unreachable: words.__('The Jupyter server does not answer'),
    shut: words.__('No connection to the Jupyter server'),
    other: words.__('This cannot be shown')
  }[problem.kind];
  const next = {
    refused: words.__('Log in again, or ask the one who runs this server.'),
    unreachable: words.__('Jobs go on without this page. It tries again by itself.'),
    shut: words.__(
      'The server answers, but lets this page open no WebSocket: too many pages may be open, or a proxy lets none through. It tries again by itself.'
    ),
    other: ''
  }[problem.kind];
  return (
    <div class="jaxtrain-note" role="alert">
      <h3>{title}</h3>
      {problem.kind !== 'unreachable' && problem.message && <p>{plain(problem.message)}</p>}
      {problem.hint && (
        <p>
          <Said text={problem.hint} />
        </p>
      )}
      {next && <p>{next}</p>}
      {again}
    </div>
  );
}

/** Said above what is still shown while there is no connection. */
export function Stale({ host, retry }: { host: Host; retry: () => void }) {
  return (
    <div class="jaxtrain-stale" role="status">
      <span>{host.words.__('No connection: this may be out of date.')}</span>
      <button type="button" class="jaxtrain-button" onClick={retry}>
        {host.words.__('Try now')}
      </button>
    </div>
  );
}
