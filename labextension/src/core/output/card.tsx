import type { ComponentChildren } from 'preact';
import { useCallback, useRef } from 'preact/hooks';

import { actionKey, actionLabel, isWithheld } from '../base/actions';
import { sanitize, span } from '../base/format';
import { useFocusFallback, useLatch, useTimedText } from '../base/hooks';
import { Bar, Numbers, reasonOf, useTimes } from '../base/progress';
import { Prose } from '../base/prose';
import type { Action, JobSummary, Row } from '../base/protocol';
import { SessionLink } from '../base/session';
import { group, stateLabel } from '../base/states';
import type { Translator } from '../base/translator';
import { Tail } from '../log/tail';
import { Sparkline } from './sparkline';

const LINES = 5; // that the server sends

/** What the card needs of the page that it is in. */
export interface CardHost {
  trans: Translator;
  act(action: Action): void;
  copy(text: string): void;
  /** Have the session of a cell be idle for longer. */
  prolong?(): void;
  /** Show a job in full, where there is a place for that. */
  open?(job: Pick<Row, 'key' | 'name'>): void;
}

interface CardProps {
  summary: JobSummary;
  /** Whether the lines of rank 0, and the error at its end, are in the cell's output. */
  printed?: boolean;
  /** Whether this is what the notebook says, until the server has answered. */
  saved?: boolean;
  /** A remark on the summary, such as that it may be out of date. */
  notice?: string;
  host: CardHost;
}

/** A job in the output of a cell: its state, how far it is, its last lines, what can be done. */
export function JobCard(props: CardProps) {
  const { summary, printed = false, saved = false, notice = '', host } = props;
  const { trans } = host;
  const { row } = summary;
  const name = sanitize(row.name);
  const state = stateLabel(row.state, trans);
  // Keep the space that parts took while the job ran, so that the cells below do not move.
  const held = useLatch(row.active && !saved);
  const lines = printed ? summary.tail.filter(([source]) => source !== 0) : summary.tail;
  const tail = lines.length > 0 ? held || row.active || !printed : held && !printed;
  // A reason is shown in the place of the progress, or below it once there is any.
  const hasProgress = row.progress !== null || (summary.spark !== null && !row.active);
  const failed = row.state === 'Failed';
  // The error that ends the cell says why it failed.
  const reason = printed && failed ? '' : reasonOf(row);
  const hint = reason && row.hint ? sanitize(row.hint) : '';
  return (
    <section
      class="jaxtrain-job-summary"
      role="group"
      aria-label={trans.__('Training job %1', name)}
      data-group={group(row.state)}
      data-held={held}
    >
      <header>
        <div class="jaxtrain-job-summary-name">
          <span class="jaxtrain-dot" aria-hidden="true" />
          <b class="jaxtrain-name" dir="auto" title={name}>
            {name}
          </b>
          <CopyName name={row.name} host={host} />
          <span class="jaxtrain-state">{state}</span>
        </div>
        <Facts summary={summary} host={host} />
        <Buttons summary={summary} host={host} />
      </header>
      <div class="jaxtrain-job-summary-middle">
        {hasProgress ? (
          <Progress summary={summary} trans={trans} />
        ) : (
          <Why failed={failed} reason={reason} hint="" />
        )}
        {!hasProgress && !reason && row.state === 'Running' && (
          <p class="jaxtrain-quiet">
            <Prose text={trans.__('Call `report()` in the code to see progress here.')} />
          </p>
        )}
      </div>
      <Footer summary={summary} notice={notice} held={held} trans={trans} />
      {/* Last, with a fixed height: nothing else moves when something comes or goes. */}
      <div class="jaxtrain-place" data-held={held && tail}>
        <Why failed={failed} reason={hasProgress ? reason : ''} hint={hint} />
        {tail && <Tail row={row} lines={lines} room={held ? LINES : 0} trans={trans} />}
      </div>
      <span class="jaxtrain-unseen" role="status">
        {`${name}: ${state}`}
      </span>
    </section>
  );
}

function CopyName({ name, host }: { name: string; host: CardHost }) {
  const word = host.trans.__('Copy name');
  return (
    <button
      type="button"
      class="jaxtrain-job-summary-copy"
      aria-label={word}
      title={word}
      onClick={() => host.copy(name)}
    >
      <svg viewBox="0 0 16 16" width="13" height="13" aria-hidden="true">
        <path d="M5.5 5.5h8v8h-8zM10.5 3v-.5h-8v8H3" />
      </svg>
    </button>
  );
}

/** Its session, how large a job is, how long it has taken, and how long it may still take. */
function Facts({ summary: { row, idle_ends }, host }: { summary: JobSummary; host: CardHost }) {
  const times = useTimes(row, null, host.trans);
  const facts = [sanitize(row.shape), times].filter(Boolean).join(' · ');
  return (
    <span class="jaxtrain-job-summary-facts jaxtrain-quiet">
      <SessionLink row={row} trans={host.trans} open={host.open?.bind(host)} />
      {typeof idle_ends === 'number' && <Ends at={idle_ends} trans={host.trans} />}
      {row.cell_of && ' · '}
      {facts}
    </span>
  );
}

/** When its session ends, kept up to date. */
function Ends({ at, trans }: { at: number; trans: Translator }) {
  const text = useCallback(
    (now: number) => trans.__('ends in %1', span(Math.max(0, at - now), trans)),
    [at, trans]
  );
  return (
    <>
      {' '}
      <b role="status">{useTimedText(text)}</b>
    </>
  );
}

function Buttons({
  summary: { row, awaited, idle_ends },
  host
}: {
  summary: JobSummary;
  host: CardHost;
}) {
  const { trans } = host;
  const place = useRef<HTMLSpanElement>(null);
  useFocusFallback(place, () => {
    const all = place.current?.closest('.jaxtrain-job-summary')?.querySelectorAll('button');
    return [...(all ?? [])].at(-1); // the last button left, or else the one beside the name
  });
  const can: Action[] = [
    ...(awaited && row.active ? (['detach'] as const) : []),
    ...(['suspend', 'resume', 'cancel', 'trust'] as const).filter(each =>
      row.actions.includes(each)
    )
  ];
  const titles: Partial<Record<Action, string>> = {
    detach: trans.__('Stop waiting; the job keeps running'),
    cancel: trans.__('Stop the job'),
    trust: trans.__('Load its results and show its HTML, which may run code')
  };
  return (
    <span ref={place} class="jaxtrain-job-summary-buttons">
      {can.map(action => (
        <button
          key={actionKey(action)}
          type="button"
          class="jaxtrain-button"
          title={titles[action]}
          onClick={() => host.act(action)}
        >
          {actionLabel(row, action, trans)}
        </button>
      ))}
      {typeof idle_ends === 'number' && host.prolong && (
        <button
          type="button"
          class="jaxtrain-button"
          title={trans.__('Restart the idle countdown of the session')}
          onClick={() => host.prolong?.()}
        >
          {actionLabel(row, 'prolong', trans)}
        </button>
      )}
      {host.open && (
        <button
          type="button"
          class="jaxtrain-button"
          title={trans.__('Open the job beside the notebook')}
          onClick={() => host.open?.(row)}
        >
          {trans.__('Open')}
        </button>
      )}
    </span>
  );
}

interface WhyProps {
  failed: boolean;
  reason: string;
  hint: string;
}

/** The reason for the state of a job, if there is one, and what to do about it. */
function Why({ failed, reason, hint }: WhyProps) {
  return reason || hint ? (
    <div class="jaxtrain-job-summary-why">
      {reason && (
        <p dir="auto" data-bad={failed} title={reason}>
          <Prose text={reason} />
        </p>
      )}
      {hint && (
        <p class="jaxtrain-quiet" dir="auto" title={hint}>
          <Prose text={hint} />
        </p>
      )}
    </div>
  ) : null;
}

function Progress({ summary: { row, spark }, trans }: { summary: JobSummary; trans: Translator }) {
  const { progress } = row;
  const metrics = { ...progress?.metrics };
  if (spark) {
    Reflect.deleteProperty(metrics, spark.name); // it stands by its line
  }
  return (
    <div class="jaxtrain-job-summary-progress">
      <span class="jaxtrain-job-summary-numbers">
        <Numbers progress={progress && { ...progress, metrics }} trans={trans} />
      </span>
      {spark && <Sparkline spark={spark} trans={trans} />}
      {row.active && (
        <span class="jaxtrain-job-summary-bar">
          <Bar row={row} trans={trans} />
        </span>
      )}
    </div>
  );
}

interface FooterProps {
  summary: JobSummary;
  notice: string;
  /** Whether to keep a line even if empty, since something is shown below it. */
  held: boolean;
  trans: Translator;
}

/** What was sent, and a line about the wait and the page, which the results replace later. */
function Footer({
  summary: { row, sent, results, pulse, remarks, note },
  notice,
  held,
  trans
}: FooterProps) {
  const attach = `%jaxtrain attach ${row.name}`;
  let first: ComponentChildren = null;
  if (note) {
    first = <b>{sanitize(note)}</b>;
  } else if (notice) {
    first = notice;
  } else if (row.active) {
    first = (
      <Prose text={trans.__('Keeps running if you close this page. Reattach: `%1`', attach)} />
    );
  }
  return (
    <footer class="jaxtrain-quiet">
      {(pulse || row.active || held) && (
        <p class="jaxtrain-pulse" title={sanitize(pulse ?? '')}>
          {sanitize(pulse ?? '') || '\u00a0'}
        </p>
      )}
      {sent && <p title={sanitize(sent)}>{trans.__('sent %1', sanitize(sent))}</p>}
      {(first !== null || row.active || (held && !results)) && (
        <p role={note ? 'status' : undefined}>{first ?? '\u00a0'}</p>
      )}
      {results && (
        <p title={sanitize(results)}>
          {isWithheld(row)
            ? trans.__('withheld: %1', sanitize(results))
            : trans.__('brought back %1', sanitize(results))}
        </p>
      )}
      {remarks?.map(remark => (
        <p key={remark} title={sanitize(remark)}>
          {sanitize(remark)}
        </p>
      ))}
    </footer>
  );
}
