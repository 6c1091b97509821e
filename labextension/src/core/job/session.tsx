/** What a session has, and the cells that it has run. */

import { Component, type ComponentChild, Fragment } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';

import { errorText, toServerError } from '../base/errors';
import { clock, duration, formatBytes, sanitize } from '../base/format';
import { useObservable, useTimedText } from '../base/hooks';
import type { Host } from '../base/host';
import { reasonOf } from '../base/progress';
import type { Row, SessionDetail, ShownVariable } from '../base/protocol';
import { ranksText } from '../base/ranks';
import { group, stateLabel } from '../base/states';
import { loadItem, saveItem } from '../base/storage';
import type { Translator } from '../base/translator';
import { useTableRows } from './rows';
import { Section } from './section';
import { lookAt } from './sessionlook';
import type { JobStore } from './store';

// ---- variables

const COLUMNS = ['name', 'type', 'sharding', 'size', 'device_size', 'cell'] as const;
type Column = (typeof COLUMNS)[number];

interface Order {
  by: Column;
  down: boolean;
}

const ORDER = 'session-order';

function columnLabel(column: Column, trans: Translator): string {
  return {
    name: trans.__('Variable'),
    type: trans.__('Type'),
    sharding: trans.__('Sharding'),
    size: trans.__('Size'),
    device_size: trans.__('Per device'),
    cell: trans.__('Cell')
  }[column];
}

/** Return variables in an order; those without a value come last. */
export function sorted(
  variables: readonly ShownVariable[],
  { by, down }: Order
): readonly ShownVariable[] {
  const way = down ? -1 : 1;
  return [...variables].sort((one, other) => {
    const [a, b] = [one[by], other[by]];
    if (a === null || b === null) {
      return Number(a === null) - Number(b === null) || compare(one.name, other.name);
    }
    return way * compare(a, b) || compare(one.name, other.name);
  });
}

function compare(a: number | string, b: number | string): number {
  return typeof a === 'number' && typeof b === 'number'
    ? a - b
    : String(a).localeCompare(String(b), undefined, { numeric: true });
}

interface VariablesProps {
  row: Row;
  session: SessionDetail;
  host: Host;
}

/** The variables of a session as of its last cell. */
export function VariablesPart({ row, session, host }: VariablesProps) {
  const { trans } = host;
  const [asked, setAsked] = useState<{ of: SessionDetail; found: SessionDetail } | null>(null);
  const [error, setError] = useState('');
  const [order, setOrder] = useState<Order>(() => {
    const { by = 'size', down = true } = loadItem<Order>(host, ORDER);
    return { by: COLUMNS.includes(by) ? by : 'size', down };
  });
  const { variables, lost, saved } = asked?.of === session ? asked.found : session;
  const refresh = async () => {
    setError('');
    try {
      const look = await lookAt(row, host);
      setAsked(look && { of: session, found: look.session });
    } catch (failed: unknown) {
      setError(errorText(toServerError(failed)));
    }
  };
  const sort = (by: Column) => {
    // What is large is looked for, and names are read from A on.
    const down = order.by === by ? !order.down : by.endsWith('size') || by === 'cell';
    setOrder({ by, down });
    saveItem(host, ORDER, { by, down });
  };
  return (
    <Section
      name="variables"
      title={trans.__('Variables')}
      host={host}
      note={noteOf(variables, trans)}
      tools={
        host.get && (
          <button type="button" class="jaxtrain-small" onClick={() => void refresh()}>
            {trans.__('Refresh')}
          </button>
        )
      }
    >
      <div
        class="jaxtrain-scroll jaxtrain-steady"
        tabIndex={0}
        role="group"
        aria-label={trans.__('Variables')}
      >
        {error && <p role="status">{error}</p>}
        {lost.length > 0 && (
          <p class="jaxtrain-quiet">
            {trans.__('Lost in the last restart: %1', lost.map(sanitize).join(', '))}
          </p>
        )}
        {saved && (
          <p class="jaxtrain-quiet">
            {trans.__('Saved at %1: %2', clock(saved.time), saved.names.map(sanitize).join(', '))}
          </p>
        )}
        {variables.length === 0 ? (
          <p class="jaxtrain-quiet">{trans.__('No variables yet')}</p>
        ) : (
          <table class="jaxtrain-ranks jaxtrain-variables">
            <thead>
              <tr>
                {COLUMNS.map(column => (
                  <Header
                    key={column}
                    label={columnLabel(column, trans)}
                    way={order.by === column ? (order.down ? 'descending' : 'ascending') : 'none'}
                    onClick={() => sort(column)}
                  />
                ))}
              </tr>
            </thead>
            <tbody>
              {sorted(variables, order).map(variable => (
                <VariableRow key={variable.name} variable={variable} trans={trans} />
              ))}
            </tbody>
          </table>
        )}
      </div>
    </Section>
  );
}

function noteOf(variables: readonly ShownVariable[], trans: Translator): string {
  const held = variables.filter(({ deleted }) => !deleted);
  const sum = (of: (each: ShownVariable) => number | null) =>
    formatBytes(held.reduce((total, each) => total + (of(each) ?? 0), 0));
  return variables.length === 0
    ? ''
    : trans._n(
        '%1 variable · %2 · at most %3 per device',
        '%1 variables · %2 · at most %3 per device',
        variables.length,
        sum(({ size }) => size),
        sum(({ device_size }) => device_size)
      );
}

interface HeaderProps {
  label: string;
  way: 'ascending' | 'descending' | 'none';
  onClick: () => void;
}

function Header({ label, way, onClick }: HeaderProps) {
  return (
    <th scope="col" aria-sort={way}>
      <button type="button" class="jaxtrain-sort" onClick={onClick}>
        {label}
        <span aria-hidden="true">{{ ascending: ' ▴', descending: ' ▾', none: '' }[way]}</span>
      </button>
    </th>
  );
}

function VariableRow({ variable, trans }: { variable: ShownVariable; trans: Translator }) {
  const { name, type, sharding, size, device_size: part, cell, deleted, ranks } = variable;
  return (
    <tr>
      <th scope="row" title={sanitize(name)}>
        {sanitize(name)}
        {ranks !== null && <span class="jaxtrain-quiet"> {ranksText(ranks, trans)}</span>}
      </th>
      <td title={sanitize(type)}>{sanitize(type)}</td>
      <td title={sanitize(sharding ?? '')}>{sanitize(sharding ?? '')}</td>
      <td>{size === null ? '' : formatBytes(size)}</td>
      {deleted ? (
        <td data-bad="true" title={trans.__('Its buffers were donated to a call, and are gone')}>
          {trans.__('deleted')}
        </td>
      ) : (
        <td>{part === null ? '' : formatBytes(part)}</td>
      )}
      <td>{cell}</td>
    </tr>
  );
}

// ---- cells

const PAGE = 100;

interface CellsProps {
  row: Row;
  store: JobStore;
  host: Host;
}

/** The cells of a session, the newest first; Enter or a click opens one. */
export function CellsPart({ row, store, host }: CellsProps) {
  const { trans } = host;
  const list = useMemo(() => store.list(), [store]);
  useEffect(() => () => list.dispose(), [list]);
  useObservable(list);
  const { rows } = list;
  const cells = useMemo(() => rows.filter(each => each.cell_of?.uid === row.uid), [rows, row.uid]);
  return (
    <Section
      name="cells"
      title={trans.__('Cells')}
      host={host}
      note={cells.length > 0 ? String(cells.length) : ''}
    >
      <div class="jaxtrain-scroll jaxtrain-steady" data-opens="true">
        {cells.length > 0 ? (
          <CellTable cells={cells} host={host} />
        ) : (
          <p class="jaxtrain-quiet">{list.loaded ? trans.__('No cells yet') : ''}</p>
        )}
      </div>
    </Section>
  );
}

function CellTable({ cells, host }: { cells: readonly Row[]; host: Host }) {
  const { trans } = host;
  const [limit, setLimit] = useState(PAGE);
  const shown = cells.slice(0, limit);
  const more = cells.length - shown.length;
  const { table, current } = useTableRows(shown.length, index => {
    const cell = shown[index];
    if (cell) {
      host.open(cell);
    }
  });
  return (
    <Fragment>
      <table class="jaxtrain-ranks jaxtrain-cells" {...table}>
        <thead>
          <tr>
            <th scope="col">{trans.__('Cell')}</th>
            <th scope="col">{trans.__('State')}</th>
            <th scope="col">{trans.__('Took')}</th>
            <th scope="col">{trans.__('Submitted')}</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((cell, index) => (
            <CellLine key={cell.key} row={cell} stop={index === current} trans={trans} />
          ))}
        </tbody>
      </table>
      {more > 0 && (
        <button type="button" class="jaxtrain-button" onClick={() => setLimit(limit + PAGE)}>
          {trans._n('%1 earlier cell', '%1 earlier cells', more)}
        </button>
      )}
    </Fragment>
  );
}

interface CellLineProps {
  row: Row;
  /** Whether Tab goes to this line. */
  stop: boolean;
  trans: Translator;
}

/** One cell. It renders again only when something that it shows is different. */
class CellLine extends Component<CellLineProps> {
  override shouldComponentUpdate(next: CellLineProps): boolean {
    const { row, stop, trans } = this.props;
    return next.row !== row || next.stop !== stop || next.trans !== trans;
  }

  override render(): ComponentChild {
    const { row, stop, trans } = this.props;
    const name = sanitize(row.name);
    return (
      <tr
        data-group={group(row.state)}
        tabIndex={stop ? 0 : -1}
        title={[trans.__('Open %1', name), reasonOf(row)].filter(Boolean).join('\n')}
      >
        <th scope="row">{name}</th>
        <td>
          <span class="jaxtrain-dot" aria-hidden="true" /> {stateLabel(row.state, trans)}
        </td>
        <td>
          <Took row={row} trans={trans} />
        </td>
        <td>{row.created > 0 ? clock(row.created) : ''}</td>
      </tr>
    );
  }
}

function Took({ row, trans }: { row: Row; trans: Translator }) {
  const { active, created, ended, elapsed } = row;
  const text = useTimedText(
    useMemo(() => {
      const took = elapsed ?? (ended ?? created) - created;
      // Most cells take less than a second, so tenths matter.
      const short = took < 10 ? trans.__('%1 s', took.toFixed(1)) : duration(took, trans);
      return (now: number) => (active ? duration(now - created, trans) : short);
    }, [active, created, ended, elapsed, trans])
  );
  return <>{text}</>;
}
