import { useRef } from 'preact/hooks';

import { actionKey, actionLabel } from '../base/actions';
import { sanitize } from '../base/format';
import { useFocusFallback } from '../base/hooks';
import type { Host } from '../base/host';
import { Bar, Numbers, useTimes } from '../base/progress';
import type { Action, Detail, Row } from '../base/protocol';
import { SessionLink, Standing } from '../base/session';
import { group, stateLabel } from '../base/states';
import type { Translator } from '../base/translator';

/** What a job is, how far it is, and what can be done with it. */
export function Head({ detail, host }: { detail: Detail; host: Host }) {
  const { trans } = host;
  const { row } = detail;
  const notebook = row.notebook;
  const actions = useRef<HTMLSpanElement>(null);
  useFocusFallback(actions, () => actions.current?.querySelector<HTMLElement>('button'));
  return (
    <header data-group={group(row.state)}>
      <div class="jaxtrain-line">
        <span class="jaxtrain-dot" aria-hidden="true" />
        <h2 class="jaxtrain-name" title={sanitize(row.name)}>
          {sanitize(row.name)}
        </h2>
        <span class="jaxtrain-state">{stateLabel(row.state, trans)}</span>
        <span ref={actions} class="jaxtrain-actions">
          {host.openLog && (
            <button type="button" class="jaxtrain-button" onClick={() => host.openLog?.(row.key)}>
              {trans.__('Log')}
            </button>
          )}
          {notebook !== null && host.openNotebook && (
            <button
              type="button"
              class="jaxtrain-button"
              title={trans.__('Open %1 at the cell of this job', sanitize(notebook))}
              onClick={() => host.openNotebook?.(notebook, row.cell)}
            >
              {trans.__('Notebook')}
            </button>
          )}
          <button type="button" class="jaxtrain-button" onClick={() => host.copy(row.name)}>
            {trans.__('Copy name')}
          </button>
          {/* Last, lasting actions first, so that the other buttons stay in place in any state. */}
          {offered(row).map(action => {
            const can = row.actions.includes(action);
            return (
              <button
                key={actionKey(action)}
                type="button"
                class="jaxtrain-button"
                aria-disabled={!can || undefined}
                onClick={() => can && host.act(row, action)}
              >
                {actionLabel(row, action, trans)}
              </button>
            );
          })}
        </span>
      </div>
      <p class="jaxtrain-facts">
        {row.cell_of && (
          <span>
            <SessionLink row={row} trans={trans} open={job => host.open(job)} />
          </span>
        )}
        {[row.shape, row.place, row.runtime ?? ''].filter(Boolean).map(fact => (
          <span key={fact}>{sanitize(fact)}</span>
        ))}
        {row.maker !== null && (
          <span>
            {row.trust === 'signed'
              ? trans.__('made by you as %1', sanitize(row.maker))
              : trans.__('claims to be made by %1', sanitize(row.maker))}
          </span>
        )}
        <Times detail={detail} trans={trans} />
      </p>
      <Progress detail={detail} trans={trans} />
    </header>
  );
}

const lastingFirst = (a: Action, b: Action) => Number(b === 'delete') - Number(a === 'delete');

/** Return the actions with a button; a live session also shows those not available yet. */
function offered({ actions, session, active, cluster }: Row): Action[] {
  const saves = !cluster || actions.includes('save'); // pods may have no place that stays
  const others: Action[] =
    session && active
      ? ['restart', 'interrupt', 'prolong', ...(saves ? (['save', 'restore'] as const) : [])]
      : [];
  return [...new Set([...actions.filter(each => !others.includes(each)), ...others])].sort(
    lastingFirst
  );
}

function Times({ detail: { row, state }, trans }: { detail: Detail; trans: Translator }) {
  const text = useTimes(row, state, trans);
  return text ? <span class="jaxtrain-took">{text}</span> : null;
}

/** The bar and the last values, in space reserved from the start. */
function Progress({ detail: { row, state }, trans }: { detail: Detail; trans: Translator }) {
  return (
    <div class="jaxtrain-progress">
      <Bar row={row} trans={trans} />
      <p>
        {row.session ? (
          <span>
            <Standing row={row} trans={trans} />
          </span>
        ) : (
          <Numbers progress={state?.progress ?? row.progress} trans={trans} />
        )}
      </p>
    </div>
  );
}
