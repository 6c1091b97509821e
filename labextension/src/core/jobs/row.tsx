import { Component, type ComponentChild } from 'preact';

import { clock, progress, sanitize } from '../base/format';
import { Age, Bar, lastMetrics, reasonOf } from '../base/progress';
import type { Row } from '../base/protocol';
import { group, stateLabel } from '../base/states';
import type { Translator } from '../base/translator';

export interface JobRowProps {
  row: Row;
  index: number;
  /** Whether Tab goes to this row. */
  current: boolean;
  trans: Translator;
  onMenu: (row: Row, x: number, y: number) => void;
}

/** One job of the list. It renders again only when its own row is another one. */
export class JobRow extends Component<JobRowProps> {
  override shouldComponentUpdate(next: JobRowProps): boolean {
    const { row, index, current, trans } = this.props;
    return (
      next.row !== row || next.index !== index || next.current !== current || next.trans !== trans
    );
  }

  override render(): ComponentChild {
    const { row, index, current, trans, onMenu } = this.props;
    const name = sanitize(row.name);
    const state = stateLabel(row.state, trans);
    const reason = reasonOf(row);
    const nodes = row.nodes > 0 ? trans._n('%1 node', '%1 nodes', row.nodes) : '';
    const done = row.active ? progress(row, trans) : '';
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
            {row.created > 0 && <Age since={row.created} trans={trans} />}
          </div>
          <div class="jaxtrain-facts">
            <span class="jaxtrain-state">{state}</span>
            {facts.map(fact => (
              <span key={fact}>{fact}</span>
            ))}
          </div>
          <Bar row={row} trans={trans} />
          {/* One line in any case, so that no row below moves when there is more to say. */}
          <div class="jaxtrain-reason">
            {reason ||
              lastMetrics(row.progress)
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
            aria-label={trans.__('Actions for %1', name)}
            title={trans.__('Actions')}
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
    const { row, trans } = this.props;
    return [
      sanitize(row.name),
      reason,
      row.hint ? sanitize(row.hint) : '',
      [row.shape, row.place, row.runtime ?? ''].filter(Boolean).map(sanitize).join(' · '),
      row.created > 0 ? trans.__('Submitted %1', clock(row.created)) : '',
      row.ended === null ? '' : trans.__('Ended %1', clock(row.ended))
    ]
      .filter(Boolean)
      .join('\n');
  }
}
