import { useMemo, useRef, useState } from 'preact/hooks';

import { useFocusFallback, useObservable } from '../base/hooks';
import type { Host } from '../base/host';
import { ProblemNote, problemOf, StaleNotice } from '../base/problem';
import { CodeBlock } from '../base/prose';
import { type Group, group, GROUPS } from '../base/states';
import { loadItem, saveItem } from '../base/storage';
import { branchesOf } from './branches';
import { type Filter, FilterBar, filterBranches, NO_FILTER } from './filter';
import { JobList } from './list';
import type { JobsStore } from './store';

const LOAD = '%load_ext jupyter_jax_trainer';
const CELL = '%%jaxtrain -n 2\nimport jax\nprint(jax.devices())';
const FILTER = 'jobs-filter';

/** Return the filter that was there last. */
function readFilter(host: Host): Filter {
  const { text, groups } = loadItem<{ text: string; groups: Group[] }>(host, FILTER);
  return {
    text: typeof text === 'string' ? text : '',
    groups: new Set(GROUPS.filter(name => Array.isArray(groups) && groups.includes(name)))
  };
}

/** All jobs, live, with what to do when there are none or they cannot be had. */
export function Jobs({ store, host }: { store: JobsStore; host: Host }) {
  useObservable(store);
  const [filter, setShown] = useState(() => readFilter(host));
  const setFilter = (next: Filter) => {
    setShown(next);
    saveItem(host, FILTER, { text: next.text, groups: [...next.groups] });
  };
  const enter = useRef(() => {});
  const all = useRef<HTMLElement>(null);
  useFocusFallback(all, () => all.current?.querySelector('input'));
  const { trans } = host;
  const { rows, loaded } = store;
  const branches = useMemo(() => branchesOf(rows), [rows]);
  const retry = () => store.retry();
  const problem = problemOf(store);

  const shown = filterBranches(branches, filter, trans);
  const running = branches.filter(({ row }) => group(row.state) === 'running').length;
  const stale = loaded && !store.current;
  let body;
  if (!loaded) {
    body = !problem && (
      <p class="jaxtrain-quiet" role="status">
        {trans.__('Loading jobs…')}
      </p>
    );
  } else if (rows.length === 0) {
    body = <NoJobs host={host} />;
  } else if (shown.length === 0) {
    body = (
      <div class="jaxtrain-note" role="status">
        <p>{trans.__('No matching jobs')}</p>
        <button type="button" class="jaxtrain-button" onClick={() => setFilter(NO_FILTER)}>
          {trans.__('Show all')}
        </button>
      </div>
    );
  } else {
    body = <JobList branches={shown} filter={filter} host={host} enter={enter} />;
  }
  return (
    <section ref={all} class="jaxtrain-jobs" aria-label={trans.__('Jobs')}>
      <header class="jaxtrain-head">
        <h2>{trans.__('Jobs')}</h2>
        <span>
          {shown.length < branches.length
            ? trans.__('%1 of %2', shown.length, branches.length)
            : branches.length > 0 && trans._n('%1 job', '%1 jobs', branches.length)}
          {running > 0 && trans.__(' · %1 running', running)}
        </span>
      </header>
      {stale && <StaleNotice host={host} retry={retry} />}
      {problem && !stale && <ProblemNote problem={problem} host={host} retry={retry} />}
      {rows.length > 0 && (
        <FilterBar
          branches={branches}
          filter={filter}
          trans={trans}
          onChange={setFilter}
          onLeave={() => enter.current()}
        />
      )}
      {body}
    </section>
  );
}

/** How to start the first job. */
function NoJobs({ host }: { host: Host }) {
  const { trans } = host;
  return (
    <div class="jaxtrain-note">
      <h3>{trans.__('No jobs yet')}</h3>
      <p>{trans.__('Run this once in a notebook:')}</p>
      <CodeBlock text={LOAD} host={host} />
      <p>{trans.__('Then a cell like this one runs as a training job with two processes:')}</p>
      <CodeBlock text={CELL} host={host} />
      <p>{trans.__('It appears here while it runs, and stays after it has ended.')}</p>
    </div>
  );
}
