import { useObservable } from '../base/hooks';
import type { Host } from '../base/host';
import { ProblemNote, problemOf, StaleNotice } from '../base/problem';
import { group } from '../base/states';
import { CodePart, YamlPart } from './code';
import { Events } from './events';
import { causeOf } from './failure';
import { Head } from './head';
import { MachinePart } from './machine';
import { MetricsPart } from './metrics';
import { ProfilePart } from './profile';
import { Initializers, Ranks } from './ranks';
import { CellsPart, VariablesPart } from './session';
import { SpendingPart } from './spending';
import { StatusPart } from './status';
import type { JobStore } from './store';
import { Timeline } from './timeline';
import { ResultsPart, SentPart } from './values';
import { WherePart } from './where';

/**
 * One job: how it came here, its ranks and metrics, why it failed, what it sent, and its code.
 *
 * A session has cells and variables instead: its cells are jobs of their own.
 */
export function Job({ store, host }: { store: JobStore; host: Host }) {
  useObservable(store);
  const retry = () => store.retry();
  const { detail, error } = store;
  const problem = problemOf(store);
  if (problem && (!detail || error)) {
    return <ProblemNote problem={problem} host={host} retry={retry} />;
  }
  if (!detail) {
    return (
      <p class="jaxtrain-quiet" role="status">
        {host.trans.__('Loading the job…')}
      </p>
    );
  }
  const { row, state, session } = detail;
  const cause =
    state?.failure && state.failure.kind !== 'cancelled' ? causeOf(state.failure) : null;
  const ranks = (
    <>
      <Initializers steps={state?.initializers ?? []} host={host} />
      <Ranks
        row={row}
        ranks={state?.ranks ?? []}
        failed={cause?.rank ?? null}
        machine={store.machine}
        host={host}
      />
      <WherePart row={row} host={host} />
    </>
  );
  return (
    <article
      class="jaxtrain-job"
      data-group={group(row.state)}
      data-session={session !== null || undefined}
    >
      {!store.current && <StaleNotice host={host} retry={retry} />}
      <Head detail={detail} host={host} />
      {state && <Timeline row={row} state={state} trans={host.trans} />}
      <StatusPart row={row} cause={cause} tail={store.tail} host={host} />
      <div class="jaxtrain-columns">
        {session ? (
          <>
            <div>
              <CellsPart row={row} store={store} host={host} />
              <VariablesPart row={row} session={session} host={host} />
            </div>
            <div>
              {ranks}
              <Events events={store.events} host={host} />
              <MachinePart store={store} host={host} />
              <YamlPart row={row} host={host} />
            </div>
          </>
        ) : (
          <>
            <div>
              {ranks}
              <MetricsPart store={store} host={host} />
              <SpendingPart spending={detail.spending} cache={detail.compile_cache} host={host} />
              <MachinePart store={store} host={host} />
              <ProfilePart detail={detail} host={host} />
            </div>
            <div>
              <Events events={store.events} host={host} />
              <ResultsPart detail={detail} host={host} />
              <SentPart sent={detail.sent} host={host} />
              <CodePart
                detail={detail}
                bad={detail.script === null ? (cause?.line ?? null) : null}
                host={host}
              />
              <YamlPart row={row} host={host} />
            </div>
          </>
        )}
      </div>
    </article>
  );
}
