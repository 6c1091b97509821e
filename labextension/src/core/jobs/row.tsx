import { Component, type ComponentChild } from 'preact';
import { useCallback } from 'preact/hooks';

import { clock, fraction, plain, progress, span } from '../base/format';
import type { Row } from '../base/protocol';
import { group, stateWord } from '../base/states';
import type { Words } from '../base/translator';
import { useTimed } from '../base/hooks';
import { valuesOf } from '../base/numbers';

/** How old something is, kept up to date. */
export function Age({ since, words }: { since: number; words: Words }) {
  const text = useTimed(useCallback((now: number) => span(now - since, words), [since, words]));
  return <span class="jaxtrain-age">{text}</span>;
}

/** How much of a job is done. */
export function Bar({ row, words }: { row: Row; words: Words }) {
  const done = fraction(row.progress);
  if (done === null || !row.active) {
    return null;
  }
  const percent = Math.floor(done * 100);
  return (
    <div
      class="jaxtrain-bar"
      role="progressbar"
      aria-label={words.__('Progress of %1', plain(row.name))}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={percent}
    >
      <div style={{ width: `${percent}%` }} />
    </div>
  );
}

/** Say why a job waits, failed or runs in an unusual way; one that succeeded explains nothing. */
export function reasonOf(row: Row): string {
  return row.reason && group(row.state) !== 'done' ? plain(row.reason) : '';
}

export interface JobRowProps {
  row: Row;
  index: number;
  /** Whether Tab goes to this row. */
  current: boolean;
  words: Words;
  onMenu: (row: Row, x: number, y: number) => void;
}

/** One job of the list. It renders again only when its own row is another one. */
export class JobRow extends Component<JobRowProps> {
  override shouldComponentUpdate(next: JobRowProps): boolean {
    const { row, index, current, words } = this.props;
    return (
      next.row !== row || next.index !== index || next.current !== current || next.words !== words
    );
  }

  override render(): ComponentChild {
    const { row, index, current, words, onMenu } = this.props;
    const name = plain(row.name);
    const state = stateWord(row.state, words);
    const reason = reasonOf(row);
    const nodes = row.nodes > 0 ? words._n('%1 node', '%1 nodes', row.nodes) : '';
    const done = row.active ? progress(row, words) : '';
    const facts = [nodes, done].filter(Boolean);
    return (
      <div
        class="jaxtrain-row"
        role="row"
        data-key={row.key}
        data-group={group(row.state)}
        aria-rowindex={index + 1}
        aria-label={[name, state, ...facts, reason].filter(Boolean).join(', ')}
        tabIndex={current ? 0 : -1}
      >
        <div role="gridcell" class="jaxtrain-row-job" title={this.title(reason)}>
          <div class="jaxtrain-line">
            <span class="jaxtrain-dot" aria-hidden="true" />
            <span class="jaxtrain-name">{name}</span>
            {row.created > 0 && <Age since={row.created} words={words} />}
          </div>
          <div class="jaxtrain-facts">
            <span class="jaxtrain-state">{state}</span>
            {facts.map(fact => (
              <span key={fact}>{fact}</span>
            ))}
          </div>
          <Bar row={row} words={words} />
          {/* One line in any case, so that no row below moves when there is more to say. */}
          <div class="jaxtrain-reason">
            {reason ||
              valuesOf(row.progress)
                .map(each => each.join(' '))
                .join(' · ')}
          </div>
        </div>
        <div role="gridcell" class="jaxtrain-row-more">
          <button
            type="button"
            class="jaxtrain-more"
            tabIndex={-1}
            aria-haspopup="menu"
            aria-label={words.__('Actions for %1', name)}
            title={words.__('Actions')}
            onClick={event => {
              event.stopPropagation();
              const { left, bottom } = event.currentTarget.getBoundingClientRect();
              onMenu(row, left, bottom);
            }}
          >
            ⋯
          </button>
        </div>
      </div>
    );
  }

  private title(reason: string): string {
    const { row, words } = this.props;
    return [
      plain(row.name),
      reason,
      row.hint ? plain(row.hint) : '',
      [row.shape, row.place, row.runtime ?? ''].filter(Boolean).map(plain).join(' · '),
      row.created > 0 ? words.__('Submitted %1', clock(row.created)) : '',
      row.ended === null ? '' : words.__('Ended %1', clock(row.ended))
    ]
      .filter(Boolean)
      .join('\n');
  }
}
