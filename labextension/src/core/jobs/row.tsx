import { Component, type ComponentChild } from 'preact';

import { clock, progress, sanitize } from '../base/format';
import { Age, Bar, lastMetrics, reasonOf } from '../base/progress';
import type { Row } from '../base/protocol';
import { Standing } from '../base/session';
import { group, stateLabel } from '../base/states';
import type { Translator } from '../base/translator';

export interface PlacedRow {
  /** Distinguishes it from the other lines of the list. */
  id: string;
  row: Row;
  index: number;
  /** Whether Tab goes to this line. */
  current: boolean;
  trans: Translator;
}

interface CellRowProps extends PlacedRow {
  onMenu: (row: Row, x: number, y: number) => void;
}

export interface JobRowProps extends CellRowProps {
  /** How many cells it has below it. */
  cells: number;
  /** Whether they are shown. */
  open: boolean;
  /** Null where they cannot be folded. */
  onFold: ((row: Row) => void) | null;
}

/** A line of the list. It renders again only when something of it is another. */
abstract class Line<Props extends PlacedRow> extends Component<Props> {
  override shouldComponentUpdate(next: Props): boolean {
    const names = Object.keys(next) as (keyof Props)[];
    return names.some(name => next[name] !== this.props[name]);
  }

  /** What all lines have as rows of the grid. */
  protected place(level: number) {
    const { id, row, index, current } = this.props;
    return {
      role: 'row' as const,
      'data-key': id,
      'data-group': group(row.state),
      'aria-level': level,
      'aria-rowindex': index + 1,
      tabIndex: current ? 0 : -1
    };
  }
}

/** One job of the list. */
export class JobRow extends Line<JobRowProps> {
  override render(): ComponentChild {
    const { row, trans, cells, open, onMenu } = this.props;
    const name = sanitize(row.name);
    const state = stateLabel(row.state, trans);
    const reason = reasonOf(row);
    const nodes = row.nodes > 0 ? trans._n('%1 node', '%1 nodes', row.nodes) : '';
    const done = row.active ? progress(row, trans) : '';
    const facts = [nodes, done].filter(Boolean);
    const kind = row.session ? trans.__('session') : '';
    return (
      <div
        {...this.place(1)}
        class="jaxtrain-row"
        aria-label={[name, kind, state, ...facts, reason].filter(Boolean).join(', ')}
        aria-expanded={cells > 0 ? open : undefined}
      >
        <div role="gridcell" class="jaxtrain-row-job" title={titleOf(row, trans)}>
          <div class="jaxtrain-line">
            <span class="jaxtrain-dot" aria-hidden="true" />
            <span class="jaxtrain-name">{name}</span>
            {row.created > 0 && <Age since={row.created} trans={trans} />}
          </div>
          <div class="jaxtrain-facts">
            <span class="jaxtrain-state">{state}</span>
            {row.session && this.fold()}
            {facts.map(fact => (
              <span key={fact}>{fact}</span>
            ))}
          </div>
          <Bar row={row} trans={trans} />
          {/* One line in any case, so that no row below moves when there is more to say. */}
          <div class="jaxtrain-reason">
            {row.session && (row.state === 'Running' || !reason) ? (
              <Standing row={row} trans={trans} />
            ) : (
              reason ||
              lastMetrics(row.progress)
                .map(each => each.join(' '))
                .join(' · ')
            )}
          </div>
        </div>
        <More row={row} name={name} trans={trans} onMenu={onMenu} />
      </div>
    );
  }

  /** How many cells a session has, which a click shows. */
  private fold(): ComponentChild {
    const { row, trans, cells, open, onFold } = this.props;
    const text = trans._n('%1 cell', '%1 cells', cells);
    if (cells === 0 || onFold === null) {
      return <span>{text}</span>;
    }
    return (
      <span>
        <button
          type="button"
          class="jaxtrain-row-fold"
          tabIndex={-1}
          aria-expanded={open}
          title={open ? trans.__('Hide its cells') : trans.__('Show its cells')}
          onClick={event => {
            event.stopPropagation();
            onFold(row);
          }}
        >
          <span aria-hidden="true">{open ? '▾' : '▸'}</span> {text}
        </button>
      </span>
    );
  }
}

/** One cell of a session, in one line. */
export class CellRow extends Line<CellRowProps> {
  override render(): ComponentChild {
    const { row, trans, onMenu } = this.props;
    const name = sanitize(row.name);
    const state = stateLabel(row.state, trans);
    const reason = reasonOf(row);
    const done = row.active ? progress(row, trans) : '';
    const more = row.state === 'Succeeded' ? '' : [state, done || reason].filter(Boolean);
    return (
      <div
        {...this.place(2)}
        class="jaxtrain-row jaxtrain-row-cell"
        aria-label={[name, state, done, reason].filter(Boolean).join(', ')}
      >
        <div role="gridcell" class="jaxtrain-row-job" title={titleOf(row, trans)}>
          <div class="jaxtrain-line">
            <span class="jaxtrain-dot" aria-hidden="true" />
            <span class="jaxtrain-row-name">{name}</span>
            <span class="jaxtrain-reason">{more && more.join(' · ')}</span>
            {row.created > 0 && <Age since={row.created} trans={trans} />}
          </div>
          <Bar row={row} trans={trans} />
        </div>
        <More row={row} name={name} trans={trans} onMenu={onMenu} />
      </div>
    );
  }
}

/** Stands for the hidden cells of a session; a click or Enter shows them. */
export class RestRow extends Line<PlacedRow & { count: number }> {
  override render(): ComponentChild {
    const { trans, count } = this.props;
    return (
      <div {...this.place(2)} class="jaxtrain-row jaxtrain-row-cell">
        <div role="gridcell" class="jaxtrain-row-job jaxtrain-reason">
          {trans._n('Show %1 earlier cell', 'Show %1 earlier cells', count)}
        </div>
      </div>
    );
  }
}

interface MoreProps extends Pick<CellRowProps, 'row' | 'trans' | 'onMenu'> {
  name: string;
}

/** The button that opens the menu of a job. */
function More({ row, name, trans, onMenu }: MoreProps) {
  return (
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
  );
}

function titleOf(row: Row, trans: Translator): string {
  return [
    sanitize(row.name),
    reasonOf(row),
    row.hint ? sanitize(row.hint) : '',
    [row.shape, row.place, row.runtime ?? ''].filter(Boolean).map(sanitize).join(' · '),
    row.created > 0 ? trans.__('Submitted %1', clock(row.created)) : '',
    row.ended === null ? '' : trans.__('Ended %1', clock(row.ended))
  ]
    .filter(Boolean)
    .join('\n');
}
