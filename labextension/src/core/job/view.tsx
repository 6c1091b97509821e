import type { Host } from '../base/host';
import { group } from '../base/states';
import type { JobStore } from './stores';
import { useWatched } from '../base/hooks';
import { CodePart, YamlPart } from './code';
import { Events } from './events';
import { causeOf } from './failure';
import { Head } from './head';
import { Initializers } from './initializers';
import { MetricsPart } from './metrics';
import { Now } from './status';
import { Ranks } from './ranks';
import { ResultsPart, SentPart } from './values';
import { Timeline } from './timeline';
import { problemOf, Stale, Trouble } from '../base/problem';

/** One job: how it came here, its ranks and metrics, why it failed, what it sent, and its code. */
export function Job({ store, host }: { store: JobStore; host: Host }) {
  useWatched(store);
  const retry = () => store.retry();
  const { detail, error } = store;
  const problem = problemOf(store);
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
  const { row, state } = detail;
  const cause =
    state?.failure && state.failure.kind !== 'cancelled' ? causeOf(state.failure) : null;
  return (
    <article class="jaxtrain-job" data-group={group(row.state)}>
      {!store.current && <Stale host={host} retry={retry} />}
      <Head detail={detail} host={host} />
      {state && <Timeline row={row} state={state} words={host.words} />}
      <Now row={row} cause={cause} tail={store.tail} host={host} />
      <div class="jaxtrain-columns">
        <div>
          <Initializers steps={state?.initializers ?? []} host={host} />
          <Ranks row={row} ranks={state?.ranks ?? []} failed={cause?.rank ?? null} host={host} />
          <MetricsPart store={store} host={host} />
        </div>
        <div>
          <Events events={store.events} host={host} />
          <ResultsPart detail={detail} host={host} />
          <SentPart sent={detail.sent} host={host} />
          <CodePart detail={detail} bad={cause?.line ?? null} host={host} />
          <YamlPart row={row} host={host} />
        </div>
      </div>
    </article>
  );
}
