import { useRef, useState } from 'preact/hooks';

import { filterRows, NO_FILTER, type Filter } from './filter';
import type { Host } from '../base/host';
import { keep, kept } from '../base/storage';
import { count, GROUPS, type Group } from '../base/states';
import type { JobsStore } from '../job/stores';
import { FilterBar } from './filterbar';
import { useHeldFocus, useWatched } from '../base/hooks';
import { JobList } from './list';
import { NoJobs, problemOf, Stale, Trouble } from '../base/problem';

const FILTER = 'jobs-filter';

/** Give the filter that was there last. */
function readFilter(host: Host): Filter {
  const { text, groups } = kept<{ text: string; groups: Group[] }>(host, FILTER);
  return {
    text: typeof text === 'string' ? text : '',
    groups: new Set(GROUPS.filter(name => Array.isArray(groups) && groups.includes(name)))
  };
}

/** All jobs, live, with what to do when there are none or they cannot be had. */
export function Jobs({ store, host }: { store: JobsStore; host: Host }) {
  useWatched(store);
  const [filter, setShown] = useState(() => readFilter(host));
  const setFilter = (next: Filter) => {
    setShown(next);
    keep(host, FILTER, { text: next.text, groups: [...next.groups] });
  };
  const enter = useRef(() => {});
  const all = useRef<HTMLElement>(null);
  useHeldFocus(all, () => all.current?.querySelector('input'));
  const { words } = host;
  const { rows, loaded } = store;
  const retry = () => store.retry();
  const problem = problemOf(store);

  const shown = filterRows(rows, filter, words);
  const running = count(rows).running;
  const stale = loaded && !store.current;
  let body;
  if (!loaded) {
    body = !problem && (
      <p class="jaxtrain-quiet" role="status">
        {words.__('Looking for jobs…')}
      </p>
    );
  } else if (rows.length === 0) {
    body = <NoJobs host={host} />;
  } else if (shown.length === 0) {
    body = (
      <div class="jaxtrain-note" role="status">
        <p>{words.__('No job matches.')}</p>
        <button type="button" class="jaxtrain-button" onClick={() => setFilter(NO_FILTER)}>
          {words.__('Show all')}
        </button>
      </div>
    );
  } else {
    body = <JobList rows={shown} filter={filter} host={host} enter={enter} />;
  }
  return (
    <section ref={all} class="jaxtrain-jobs" aria-label={words.__('Jobs')}>
      <header class="jaxtrain-head">
        <h2>{words.__('Jobs')}</h2>
        <span>
          {shown.length < rows.length
            ? words.__('%1 of %2', shown.length, rows.length)
            : rows.length > 0 && words._n('%1 job', '%1 jobs', rows.length)}
          {running > 0 && words.__(' · %1 running', running)}
        </span>
      </header>
      {stale && <Stale host={host} retry={retry} />}
      {problem && !stale && <Trouble problem={problem} host={host} retry={retry} />}
      {rows.length > 0 && (
        <FilterBar
          rows={rows}
          filter={filter}
          words={words}
          onChange={setFilter}
          onLeave={() => enter.current()}
        />
      )}
      {body}
    </section>
  );
}
