import { clock, duration, plain } from '../format';
import { actionWord, type Host } from '../host';
import type { Detail, JobEvent, JobState, Rank, Row } from '../protocol';
import { group, stateWord } from '../states';
import type { JobStore } from '../stores';
import type { Words } from '../words';
import { useWatched } from './hooks';
import { Bar, reasonOf } from './jobrow';
import { Stale, Trouble } from './states';

const MOST_EVENTS = 100;

/** One job: how it came here, its ranks and events, why it failed, and its code. */
export function Job({ store, host }: { store: JobStore; host: Host }) {
  useWatched(store);
  const retry = () => store.retry();
  const { detail, error } = store;
  const problem = store.problem ?? (error && { kind: 'other' as const, ...error });
  if (problem && (!detail || error)) {
    return <Trouble problem={problem} host={host} retry={retry} />;
  }
  if (!detail) {
    return (
      <p class="jaxtrain-quiet" role="status">
        {host.words.__('Looking for the job…')}
      </p>
    );
  }
  return (
    <article class="jaxtrain-job" data-group={group(detail.row.state)}>
      {!store.current && <Stale host={host} retry={retry} />}
      <Head row={detail.row} host={host} />
      <Why row={detail.row} state={detail.state} words={host.words} />
      {detail.state && <Timeline state={detail.state} words={host.words} />}
      {detail.state && <Ranks ranks={detail.state.ranks} words={host.words} />}
      <Events events={store.events} words={host.words} />
      <Code detail={detail} words={host.words} />
    </article>
  );
}

function Head({ row, host }: { row: Row; host: Host }) {
  const { words } = host;
  return (
    <header>
      <div class="jaxtrain-line">
        <span class="jaxtrain-dot" aria-hidden="true" />
        <h2 class="jaxtrain-name">{plain(row.name)}</h2>
        <span class="jaxtrain-state">{stateWord(row.state, words)}</span>
        <span class="jaxtrain-actions">
          {row.actions.map(action => (
            <button
              key={action}
              type="button"
              class="jaxtrain-button"
              onClick={() => host.act(row, action)}
            >
              {actionWord(action, words)}
            </button>
          ))}
        </span>
      </div>
      <p class="jaxtrain-facts">
        {[row.shape, row.place, row.runtime ?? ''].filter(Boolean).map(fact => (
          <span key={fact}>{plain(fact)}</span>
        ))}
      </p>
      <Bar row={row} words={words} />
    </header>
  );
}

function Why({ row, state, words }: { row: Row; state: JobState | null; words: Words }) {
  const { failure } = state ?? { failure: null };
  const reason = reasonOf(row);
  if (!failure && !reason) {
    return null;
  }
  return (
    <section class="jaxtrain-why" aria-label={words.__('Why')}>
      {reason && <p>{reason}</p>}
      {row.hint && <p class="jaxtrain-quiet">{plain(row.hint)}</p>}
      {failure && !reason.includes(plain(failure.message)) && <pre>{plain(failure.message)}</pre>}
    </section>
  );
}

function Timeline({ state, words }: { state: JobState; words: Words }) {
  const { history } = state;
  return (
    <section>
      <h3>{words.__('States')}</h3>
      <ol class="jaxtrain-timeline">
        {history.map((entry, index) => {
          const next = history[index + 1];
          return (
            <li key={index} data-group={group(entry.state)}>
              <span class="jaxtrain-dot" aria-hidden="true" />
              {stateWord(entry.state, words)}
              <time dateTime={new Date(entry.time * 1000).toISOString()}>{clock(entry.time)}</time>
              {next && <span>{words.__('for %1', duration(next.time - entry.time, words))}</span>}
            </li>
          );
        })}
      </ol>
    </section>
  );
}

function Ranks({ ranks, words }: { ranks: Rank[]; words: Words }) {
  if (ranks.length === 0) {
    return null;
  }
  const pods = ranks.some(rank => rank.pod);
  return (
    <section>
      <h3>{words.__('Ranks')}</h3>
      <table class="jaxtrain-ranks">
        <thead>
          <tr>
            <th scope="col">{words.__('Rank')}</th>
            <th scope="col">{words.__('State')}</th>
            <th scope="col">{pods ? words.__('Pod') : words.__('Process')}</th>
            <th scope="col">{pods ? words.__('Node') : words.__('Host')}</th>
            <th scope="col">{words.__('Restarts')}</th>
            <th scope="col">{words.__('Exit')}</th>
          </tr>
        </thead>
        <tbody>
          {ranks.map(rank => (
            <tr key={rank.rank}>
              <th scope="row">{rank.rank}</th>
              <td>{plain(rank.state)}</td>
              <td>{pods ? plain(rank.pod ?? '') : rank.pid}</td>
              <td>{plain(rank.host ?? '')}</td>
              <td>{rank.restarts}</td>
              <td>{rank.exit}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Events({ events, words }: { events: readonly JobEvent[]; words: Words }) {
  if (events.length === 0) {
    return null;
  }
  return (
    <section>
      <h3>{words.__('Events')}</h3>
      <ol class="jaxtrain-timeline">
        {events.slice(-MOST_EVENTS).map(({ time, rank, message }, index) => (
          <li key={index}>
            <time dateTime={new Date(time * 1000).toISOString()}>{clock(time)}</time>
            {rank === null ? '' : words.__('rank %1: ', rank)}
            {plain(message)}
          </li>
        ))}
      </ol>
    </section>
  );
}

function Code({ detail, words }: { detail: Detail; words: Words }) {
  return (
    <section>
      <h3>{words.__('Code')}</h3>
      <pre class="jaxtrain-source" tabIndex={0} aria-label={words.__('Code of the job')}>
        {detail.line && <b>{`%%jaxtrain ${plain(detail.line).replace(/^%%jaxtrain\s*/, '')}\n`}</b>}
        {plain(detail.code ?? '')}
      </pre>
    </section>
  );
}
