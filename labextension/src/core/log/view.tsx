import { useLayoutEffect, useRef } from 'preact/hooks';

import { clock, plain } from '../base/format';
import { useWatched } from '../base/hooks';
import { problemOf, Stale, Trouble } from '../base/problem';
import type { Words } from '../base/translator';
import type { LogHost } from '../base/loghost';
import { close } from './keys';
import { LogList } from './list';
import { copyLink, Filters, Help, LineDetail } from './panes';
import type { Reader } from './reader';
import type { LogStore } from './store';
import { Toolbar } from './toolbar';

interface LogViewProps {
  /** It stays when the view is taken out of the page and put in again. */
  reader: Reader;
  host: LogHost;
}

/** The log of a job: live, with search, filters and all that one does with a long log. */
export function LogView({ reader, host }: LogViewProps) {
  const { words } = host;
  const { store } = reader;
  useWatched(reader);
  const field = useRef<HTMLInputElement>(null);
  const enter = useRef(() => {});
  const retry = () => store.retry();
  const onSearch = () => {
    field.current?.focus();
    field.current?.select();
  };
  const place = useRef<HTMLInputElement>(null);
  const asked = useRef(false); // for the field that is not there before the filters are
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
      reader.say(words.__('A link to the line is copied.'));
    });
  };
  const ways = {
    search: onSearch,
    place: onPlace,
    copy: (text: string) => host.copy(text),
    ...(host.link && { link: onLink })
  };
  const onLeave = () => enter.current();
  const onClose = () => {
    close(reader);
    enter.current();
  };

  const problem = problemOf(store);
  if (problem && !store.loaded && store.choice.include === null && store.choice.exclude === null) {
    return <Trouble problem={problem} host={host} retry={retry} />;
  }
  if (!store.listed) {
    // What can be done depends on that: nothing is shown that would have to move.
    return (
      <p class="jaxtrain-quiet" role="status">
        {words.__('Looking for lines…')}
      </p>
    );
  }
  return (
    <section class="jaxtrain-log" aria-label={words.__('Log of %1', plain(store.key))}>
      <Toolbar reader={reader} host={host} field={field} onLeave={onLeave} />
      {reader.filters && <Filters reader={reader} words={words} place={place} onLeave={onLeave} />}
      {!store.current && store.loaded && <Stale host={host} retry={retry} />}
      {store.error && (
        <div class="jaxtrain-stale" role="alert">
          {[store.error.message, store.error.hint ?? ''].filter(Boolean).map(plain).join(' ')}
        </div>
      )}
      <div class="jaxtrain-log-main">
        {reader.rows > 0 ? (
          <LogList reader={reader} words={words} ways={ways} enter={enter} />
        ) : (
          <p class="jaxtrain-quiet">{nothing(store, words)}</p>
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
              ? words._n(
                  '↓ follow · %2 new line',
                  '↓ follow · %2 new lines',
                  reader.unseen,
                  reader.unseen.toLocaleString()
                )
              : words.__('↓ follow')}
          </button>
        )}
        {reader.help && <Help reader={reader} host={host} onClose={onClose} />}
      </div>
      {reader.detail && <LineDetail reader={reader} host={host} onClose={onClose} />}
      <Status reader={reader} words={words} />
    </section>
  );
}

function nothing(store: LogStore, words: Words): string {
  if (!store.loaded || !store.complete) {
    return words.__('Looking for lines…');
  }
  const { sources, include, exclude } = store.choice;
  if (sources ?? include ?? exclude) {
    return words.__('No line is like that.');
  }
  return store.ended ? words.__('Nothing was printed.') : words.__('Nothing was printed so far.');
}

function Status({ reader, words }: { reader: Reader; words: Words }) {
  const { store } = reader;
  const length = store.length.toLocaleString();
  const line = Math.min(store.length, reader.at + 1).toLocaleString();
  const last = store.ended ? store.line(store.length - 1)?.time : null;
  const parts = [
    words.__('line %1 of %2', line, store.complete ? length : words.__('%1 so far', length)),
    last ? words.__('last line %1', clock(last)) : '',
    reader.following && !store.ended ? words.__('following') : ''
  ];
  return (
    <footer class="jaxtrain-log-status">
      <span>{parts.filter(Boolean).join(' · ')}</span>
      <span role="status">{plain(reader.said)}</span>
      <span class="jaxtrain-log-keys">{words.__('/ search · e error · f follow · ? keys')}</span>
    </footer>
  );
}
