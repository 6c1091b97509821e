import { useCallback, useRef } from 'preact/hooks';

import { plain } from '../base/format';
import { actionWord, keyOf, type Host } from '../base/host';
import type { Action, Detail } from '../base/protocol';
import { group, stateWord } from '../base/states';
import type { Words } from '../base/translator';
import { useHeldFocus, useTimed } from '../base/hooks';
import { Bar } from '../jobs/row';
import { Numbers } from '../base/numbers';
import { timesText } from './texts';

/** What a job is, how far it is, and what can be done with it. */
export function Head({ detail, host }: { detail: Detail; host: Host }) {
  const { words } = host;
  const { row } = detail;
  const notebook = row.notebook;
  const actions = useRef<HTMLSpanElement>(null);
  useHeldFocus(actions, () => actions.current?.querySelector<HTMLElement>('button'));
  return (
    <header data-group={group(row.state)}>
      <div class="jaxtrain-line">
        <span class="jaxtrain-dot" aria-hidden="true" />
        <h2 class="jaxtrain-name" title={plain(row.name)}>
          {plain(row.name)}
        </h2>
        <span class="jaxtrain-state">{stateWord(row.state, words)}</span>
        <span ref={actions} class="jaxtrain-actions">
          {host.openLog && (
            <button type="button" class="jaxtrain-button" onClick={() => host.openLog?.(row.key)}>
              {words.__('Log')}
            </button>
          )}
          {notebook !== null && host.openNotebook && (
            <button
              type="button"
              class="jaxtrain-button"
              title={words.__('Open %1 at the cell of this job', plain(notebook))}
              onClick={() => host.openNotebook?.(notebook, row.cell)}
            >
              {words.__('Notebook')}
            </button>
          )}
          <button type="button" class="jaxtrain-button" onClick={() => host.copy(row.name)}>
            {words.__('Copy name')}
          </button>
          {/* The last, what lasts before what does not: the others keep their places in any state. */}
          {[...row.actions].sort(lastingFirst).map(action => (
            <button
              key={keyOf(action)}
              type="button"
              class="jaxtrain-button"
              onClick={() => host.act(row, action)}
            >
              {actionWord(action, words)}
            </button>
          ))}
        </span>
      </div>
      <p class="jaxtrain-facts">
        {[row.shape, row.place, row.runtime ?? ''].filter(Boolean).map(fact => (
          <span key={fact}>{plain(fact)}</span>
        ))}
        {row.maker !== null && (
          <span>
            {row.trust === 'signed'
              ? words.__('made by you as %1', plain(row.maker))
              : words.__('claims to be made by %1', plain(row.maker))}
          </span>
        )}
        <Times detail={detail} words={words} />
      </p>
      <Progress detail={detail} words={words} />
    </header>
  );
}

const lastingFirst = (a: Action, b: Action) => Number(b === 'delete') - Number(a === 'delete');

function Times({ detail: { row, state }, words }: { detail: Detail; words: Words }) {
  const text = useTimed(
    useCallback((now: number) => timesText(row, state, now, words), [row, state, words])
  );
  return row.created > 0 ? <span class="jaxtrain-took">{text}</span> : null;
}

/** The bar and the last values, in a place that is there before they are, and stays. */
function Progress({ detail: { row, state }, words }: { detail: Detail; words: Words }) {
  return (
    <div class="jaxtrain-progress">
      <Bar row={row} words={words} />
      <p>
        <Numbers progress={state?.progress ?? row.progress} words={words} />
      </p>
    </div>
  );
}
