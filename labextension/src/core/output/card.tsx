import type { ComponentChildren } from 'preact';
import { useCallback, useRef } from 'preact/hooks';

import { duration, plain } from '../base/format';
import { actionWord, isWithheld, keyOf } from '../base/host';
import { Pace } from '../base/pace';
import type { Action, Glance, Row } from '../base/protocol';
import { group, stateWord } from '../base/states';
import type { Words } from '../base/translator';
import { useEver, useHeldFocus, useTimed } from '../base/hooks';
import { timesText } from '../job/texts';
import { Bar, reasonOf } from '../jobs/row';
import { Numbers } from '../base/numbers';
import { Said } from '../base/prose';
import { Sparkline } from './sparkline';
import { Tail } from '../log/tail';

const LINES = 5; // that the server sends

/** What the compact view needs of the page that it is in. */
export interface GlanceHost {
  words: Words;
  act(action: Action): void;
  copy(text: string): void;
  /** Show the job in full, where there is a place for that. */
  open?(): void;
}

interface GlanceProps {
  glance: Glance;
  /** Whether the lines of the job stand in the cell's output already. */
  printed?: boolean;
  /** Whether this is what the notebook says, until the server has answered. */
  saved?: boolean;
  /** What is to be known about what is shown, such as that it may be out of date. */
  said?: string;
  host: GlanceHost;
}

/** A job in the output of a cell: its state, how far it is, its last lines, what can be done. */
export function GlanceView(props: GlanceProps) {
  const { glance, printed = false, saved = false, said = '', host } = props;
  const { words } = host;
  const { row } = glance;
  const name = plain(row.name);
  const state = stateWord(row.state, words);
  // What had its place while the job ran keeps it: the cells below stay where they are.
  const held = useEver(row.active && !saved);
  const tail = held || (glance.tail.length > 0 && (row.active || !printed));
  // A reason stands where the progress will, and below it once that is there.
  const told = row.progress !== null || (glance.spark !== null && !row.active);
  const failed = row.state === 'Failed';
  const reason = reasonOf(row);
  const hint = reason && row.hint ? plain(row.hint) : '';
  return (
    <section
      class="jaxtrain-glance"
      role="group"
      aria-label={words.__('Training job %1', name)}
      data-group={group(row.state)}
      data-held={held}
    >
      <header>
        <div class="jaxtrain-glance-name">
          <span class="jaxtrain-dot" aria-hidden="true" />
          <b class="jaxtrain-name" dir="auto" title={name}>
            {name}
          </b>
          <CopyName name={row.name} host={host} />
          <span class="jaxtrain-state">{state}</span>
        </div>
        <Facts row={row} words={words} />
        <Buttons glance={glance} host={host} />
      </header>
      <div class="jaxtrain-glance-middle">
        {told ? (
          <Progress glance={glance} words={words} />
        ) : (
          <Why failed={failed} reason={reason} hint="" />
        )}
        {!told && !reason && row.state === 'Running' && (
          <p class="jaxtrain-quiet">
            <Said text={words.__('How far it is can be seen here once it calls `report()`.')} />
          </p>
        )}
      </div>
      <Footer glance={glance} said={said} held={held} words={words} />
      {/* The last, in a place of one height: nothing else moves when something comes or goes. */}
      <div class="jaxtrain-place" data-held={held}>
        <Why failed={failed} reason={told ? reason : ''} hint={hint} />
        {tail && <Tail row={row} lines={glance.tail} room={held ? LINES : 0} words={words} />}
      </div>
      <span class="jaxtrain-unseen" role="status">
        {`${name}: ${state}`}
      </span>
    </section>
  );
}

function CopyName({ name, host }: { name: string; host: GlanceHost }) {
  const word = host.words.__('Copy name');
  return (
    <button
      type="button"
      class="jaxtrain-glance-copy"
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

/** How large a job is, how long it has taken, and how long it may still take. */
function Facts({ row, words }: { row: Row; words: Words }) {
  const pace = useRef<Pace>(undefined);
  pace.current ??= new Pace();
  const { current } = pace;
  current.see(row);
  const times = useTimed(
    useCallback(
      (now: number) => {
        const left = current.left(now);
        const took = row.created > 0 ? timesText(row, null, now, words) : '';
        return left === null
          ? took
          : `${took} · ${words.__('about %1 left', duration(left, words))}`;
      },
      [row, words, current]
    )
  );
  const facts = [plain(row.shape), times].filter(Boolean).join(' · ');
  return <span class="jaxtrain-glance-facts jaxtrain-quiet">{facts}</span>;
}

function Buttons({ glance: { row, waited }, host }: { glance: Glance; host: GlanceHost }) {
  const { words } = host;
  const place = useRef<HTMLSpanElement>(null);
  useHeldFocus(place, () => {
    const all = place.current?.closest('.jaxtrain-glance')?.querySelectorAll('button');
    return [...(all ?? [])].at(-1); // the last of these, or else that by the name
  });
  const can: Action[] = [
    ...(waited && row.active ? (['detach'] as const) : []),
    ...(['suspend', 'resume', 'cancel', 'trust'] as const).filter(each =>
      row.actions.includes(each)
    )
  ];
  const titles: Partial<Record<Action, string>> = {
    detach: words.__('Go on with the notebook; the job goes on, too'),
    cancel: words.__('Stop the job'),
    trust: words.__('Load its results and show its HTML, which may run code')
  };
  return (
    <span ref={place} class="jaxtrain-glance-buttons">
      {can.map(action => (
        <button
          key={keyOf(action)}
          type="button"
          class="jaxtrain-button"
          title={titles[action]}
          onClick={() => host.act(action)}
        >
          {actionWord(action, words)}
        </button>
      ))}
      {host.open && (
        <button
          type="button"
          class="jaxtrain-button"
          title={words.__('Show all of the job beside the notebook')}
          onClick={() => host.open?.()}
        >
          {words.__('Open')}
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

/** Why a job is as it is, where that has to be explained, and what to do about it. */
function Why({ failed, reason, hint }: WhyProps) {
  return reason || hint ? (
    <div class="jaxtrain-glance-why">
      {reason && (
        <p dir="auto" data-bad={failed} title={reason}>
          <Said text={reason} />
        </p>
      )}
      {hint && (
        <p class="jaxtrain-quiet" dir="auto" title={hint}>
          <Said text={hint} />
        </p>
      )}
    </div>
  ) : null;
}

function Progress({ glance: { row, spark }, words }: { glance: Glance; words: Words }) {
  const { progress } = row;
  const metrics = { ...progress?.metrics };
  if (spark) {
    Reflect.deleteProperty(metrics, spark.name); // it stands by its line
  }
  return (
    <div class="jaxtrain-glance-progress">
      <span class="jaxtrain-glance-numbers">
        <Numbers progress={progress && { ...progress, metrics }} words={words} />
      </span>
      {spark && <Sparkline spark={spark} words={words} />}
      {row.active && (
        <span class="jaxtrain-glance-bar">
          <Bar row={row} words={words} />
        </span>
      )}
    </div>
  );
}

interface FooterProps {
  glance: Glance;
  said: string;
  /** Whether the line is there in any case, since something stands below it. */
  held: boolean;
  words: Words;
}

/** What was sent, and a line about the wait and the page, in whose place are the results then. */
function Footer({ glance: { row, sent, results, note }, said, held, words }: FooterProps) {
  const attach = `%jaxtrain attach ${row.name}`;
  let first: ComponentChildren = null;
  if (note) {
    first = <b>{plain(note)}</b>;
  } else if (said) {
    first = said;
  } else if (row.active) {
    first = <Said text={words.__('goes on without this page; to come back: `%1`', attach)} />;
  }
  return (
    <footer class="jaxtrain-quiet">
      {sent && <p title={plain(sent)}>{words.__('sent %1', plain(sent))}</p>}
      {(first !== null || row.active || (held && !results)) && (
        <p role={note ? 'status' : undefined}>{first ?? '\u00a0'}</p>
      )}
      {results && (
        <p title={plain(results)}>
          {isWithheld(row)
            ? words.__('withheld: %1', plain(results))
            : words.__('brought back %1', plain(results))}
        </p>
      )}
    </footer>
  );
}
