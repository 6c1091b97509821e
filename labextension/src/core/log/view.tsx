import { useLayoutEffect, useRef } from 'preact/hooks';

import { clock, sanitize } from '../base/format';
import { useObservable } from '../base/hooks';
import type { Host } from '../base/host';
import { ProblemNote, problemOf, StaleNotice } from '../base/problem';
import type { Translator } from '../base/translator';
import { closePane } from './keys';
import { LogList } from './list';
import { copyLink, Filters, Help, LineDetail } from './panes';
import type { Reader } from './reader';
import type { LogStore } from './store';
import { Toolbar } from './toolbar';

interface LogViewProps {
  /** Outlives the view, which may be detached and attached again. */
  reader: Reader;
  host: Host;
}

/** The log of a job: live, with search, filters and navigation. */
export function LogView({ reader, host }: LogViewProps) {
  const { trans } = host;
  const { store } = reader;
  useObservable(reader);
  const field = useRef<HTMLInputElement>(null);
  const enter = useRef(() => {});
  const retry = () => store.retry();
  const onSearch = () => {
    field.current?.focus();
    field.current?.select();
  };
  const place = useRef<HTMLInputElement>(null);
  const asked = useRef(false); // until the filters with the field are rendered
  const onPlace = () => {
    asked.current = true;
    reader.set({ filters: true });
  };
  useLayoutEffect(() => {
    if (asked.current && place.current) {
      asked.current = false;
      place.current.focus();
      place.current.select();
    }
  });
  const onLink = () => {
    reader.withLine(line => {
      copyLink(reader, host, line.position);
      reader.announce(trans.__('Link to the line copied'));
    });
  };
  const actions = {
    search: onSearch,
    place: onPlace,
    copy: (text: string) => host.copy(text),
    ...(host.link && { link: onLink })
  };
  const onLeave = () => enter.current();
  const onClose = () => {
    closePane(reader);
    enter.current();
  };

  const problem = problemOf(store);
  if (problem && !store.loaded && store.choice.include === null && store.choice.exclude === null) {
    return <ProblemNote problem={problem} host={host} retry={retry} />;
  }
  if (!store.listed) {
    // The toolbar depends on the list of logs: showing it earlier would move it.
    return (
      <p class="jaxtrain-quiet" role="status">
        {trans.__('Loading lines…')}
      </p>
    );
  }
  return (
    <section class="jaxtrain-log" aria-label={trans.__('Log of %1', sanitize(store.key))}>
      <Toolbar reader={reader} host={host} field={field} onLeave={onLeave} />
      {reader.filters && <Filters reader={reader} trans={trans} place={place} onLeave={onLeave} />}
      {!store.current && store.loaded && <StaleNotice host={host} retry={retry} />}
      {store.error && (
        <div class="jaxtrain-stale" role="alert">
          {[store.error.message, store.error.hint ?? ''].filter(Boolean).map(sanitize).join(' ')}
        </div>
      )}
      <div class="jaxtrain-log-main">
        {reader.rows > 0 ? (
          <LogList reader={reader} trans={trans} actions={actions} enter={enter} />
        ) : (
          <p class="jaxtrain-quiet">{nothing(store, trans)}</p>
        )}
        {!reader.following && reader.unseen + (store.ended ? 0 : 1) > 0 && (
          <button
            type="button"
            class="jaxtrain-log-follow"
            onClick={() => {
              reader.follow();
              enter.current();
            }}
          >
            {reader.unseen > 0
              ? trans._n(
                  '↓ follow · %2 new line',
                  '↓ follow · %2 new lines',
                  reader.unseen,
                  reader.unseen.toLocaleString()
                )
              : trans.__('↓ follow')}
          </button>
        )}
        {reader.help && <Help reader={reader} host={host} onClose={onClose} />}
      </div>
      {reader.detail && <LineDetail reader={reader} host={host} onClose={onClose} />}
      <Status reader={reader} trans={trans} />
    </section>
  );
}

function nothing(store: LogStore, trans: Translator): string {
  if (!store.loaded || !store.complete) {
    return trans.__('Loading lines…');
  }
  const { sources, include, exclude } = store.choice;
  if (sources ?? include ?? exclude) {
    return trans.__('No matching lines');
  }
  return store.ended ? trans.__('No output') : trans.__('No output yet');
}

function Status({ reader, trans }: { reader: Reader; trans: Translator }) {
  const { store } = reader;
  const length = store.length.toLocaleString();
  const line = Math.min(store.length, reader.at + 1).toLocaleString();
  const last = store.ended ? store.line(store.length - 1)?.time : null;
  const parts = [
    trans.__('line %1 of %2', line, store.complete ? length : trans.__('%1 so far', length)),
    last ? trans.__('last line %1', clock(last)) : '',
    reader.following && !store.ended ? trans.__('following') : ''
  ];
  return (
    <footer class="jaxtrain-log-status">
      <span>{parts.filter(Boolean).join(' · ')}</span>
      <span role="status">{sanitize(reader.announcement)}</span>
      <span class="jaxtrain-log-keys">{trans.__('/ search · e error · f follow · ? keys')}</span>
    </footer>
  );
}
