import { useLayoutEffect, useRef, useState } from 'preact/hooks';

import { clock, plain, wordOf } from '../base/format';
import type { Host } from '../base/host';
import type { JobEvent } from '../base/protocol';
import type { Words } from '../base/translator';
import { Section } from './section';

const PAGE = 200;
const NEAR = 24; // pixels from the end that still count as the end

/** What happened to a job; the newest is last, and stays in sight unless somebody scrolled up. */
export function Events({ events, host }: { events: readonly JobEvent[]; host: Host }) {
  const { words } = host;
  const [limit, setLimit] = useState(PAGE);
  const place = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    if (place.current && atEnd.current) {
      place.current.scrollTop = place.current.scrollHeight;
    }
  }, [events.length]);
  const start = Math.max(0, events.length - limit);
  return (
    <Section
      name="events"
      title={words.__('Events')}
      host={host}
      note={events.length > 0 ? String(events.length) : ''}
    >
      <div
        ref={place}
        class="jaxtrain-scroll jaxtrain-happened"
        tabIndex={0}
        role="group"
        aria-label={words.__('Events')}
        onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
          atEnd.current = scrollHeight - scrollTop - clientHeight < NEAR;
        }}
      >
        {start > 0 && (
          <button
            type="button"
            class="jaxtrain-button"
            onClick={() => {
              atEnd.current = false;
              setLimit(limit + PAGE);
            }}
          >
            {words._n('%1 earlier event', '%1 earlier events', start)}
          </button>
        )}
        {events.length === 0 && (
          <p class="jaxtrain-quiet">{words.__('Nothing has happened yet.')}</p>
        )}
        <ol class="jaxtrain-events">
          {events.slice(start).map(({ time, rank, kind, message }, index) => (
            <li key={start + index}>
              <time dateTime={stamp(time)}>{clock(time)}</time>
              <span class="jaxtrain-kind">{kindWord(kind, words)}</span>
              <span>
                {rank === null ? '' : words.__('rank %1: ', rank)}
                {plain(message)}
              </span>
            </li>
          ))}
        </ol>
      </div>
    </Section>
  );
}

/** Give the word of a kind of event. */
function kindWord(kind: string, words: Words): string {
  return wordOf(kind, {
    state: words.__('state'),
    restart: words.__('restart'),
    note: words.__('note'),
    warning: words.__('warning'),
    error: words.__('error'),
    gap: words.__('gap')
  });
}

function stamp(seconds: number): string {
  const time = new Date(seconds * 1000);
  return Number.isNaN(time.getTime()) ? '' : time.toISOString();
}
