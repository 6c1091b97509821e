import type { Host } from '../host';
import { group } from '../states';
import type { JobStore } from '../stores';
import { useWatched } from './hooks';
import { CodePart, YamlPart } from './job/code';
import { Events } from './job/events';
import { causeOf } from './job/failure';
import { Head } from './job/head';
import { Initializers } from './job/initializers';
import { MetricsPart } from './job/metrics';
import { Now } from './job/now';
import { Ranks } from './job/ranks';
import { ResultsPart, SentPart } from './job/things';
import { Timeline } from './job/timeline';
import { problemOf, Stale, Trouble } from './states';

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
