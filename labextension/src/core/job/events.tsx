import { useLayoutEffect, useRef, useState } from 'preact/hooks';

import { clock, labelFor, sanitize } from '../base/format';
import type { Host } from '../base/host';
import type { JobEvent } from '../base/protocol';
import type { Translator } from '../base/translator';
import { Section } from './section';

const PAGE = 200;
const NEAR = 24; // pixels from the end that still count as the end

/** The events of a job; the newest is last, and stays in view unless the user scrolls up. */
export function Events({ events, host }: { events: readonly JobEvent[]; host: Host }) {
  const { trans } = host;
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
      title={trans.__('Events')}
      host={host}
      note={events.length > 0 ? String(events.length) : ''}
    >
      <div
        ref={place}
        class="jaxtrain-scroll jaxtrain-happened"
        tabIndex={0}
        role="group"
        aria-label={trans.__('Events')}
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
            {trans._n('%1 earlier event', '%1 earlier events', start)}
          </button>
        )}
        {events.length === 0 && <p class="jaxtrain-quiet">{trans.__('No events yet')}</p>}
        <ol class="jaxtrain-events">
          {events.slice(start).map(({ time, rank, kind, message }, index) => (
            <li key={start + index}>
              <time dateTime={stamp(time)}>{clock(time)}</time>
              <span class="jaxtrain-kind">{kindLabel(kind, trans)}</span>
              <span>
                {rank === null ? '' : trans.__('rank %1: ', rank)}
                {sanitize(message)}
              </span>
            </li>
          ))}
        </ol>
      </div>
    </Section>
  );
}

/** Return the word of a kind of event. */
function kindLabel(kind: string, trans: Translator): string {
  return labelFor(kind, {
    state: trans.__('state'),
    restart: trans.__('restart'),
    note: trans.__('note'),
    warning: trans.__('warning'),
    error: trans.__('error'),
    gap: trans.__('gap')
  });
}

function stamp(seconds: number): string {
  const time = new Date(seconds * 1000);
  return Number.isNaN(time.getTime()) ? '' : time.toISOString();
}
