import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

import { actionLabel, confirmationFor } from '../base/actions';
import { useFocusFallback } from '../base/hooks';
import type { Host, MenuItem } from '../base/host';
import type { Row } from '../base/protocol';
import type { Translator } from '../base/translator';
import type { Branch } from './branches';
import { type Filter, isEmpty } from './filter';
import { useFolds } from './folds';
import { CellRow, JobRow, RestRow } from './row';

const PAGE = 100; // jobs that are shown at once
const CELLS = 5; // cells of a session, likewise
const JUMP = 10;

/** A line of the list; `rest` stands for cells that are not shown. */
type Item =
  | { kind: 'job'; id: string; row: Row; cells: number; open: boolean }
  | { kind: 'cell'; id: string; row: Row; of: string }
  | { kind: 'rest'; id: string; row: Row; of: string; count: number };

/** Return the lines of jobs; `most` says how many cells of a session are shown. */
function itemsOf(
  branches: readonly Branch[],
  isOpen: (row: Row) => boolean,
  most: (row: Row) => number
): Item[] {
  return branches.flatMap(({ row, cells }): Item[] => {
    const open = cells.length > 0 && isOpen(row);
    const top: Item = { kind: 'job', id: row.key, row, cells: cells.length, open };
    if (!open) {
      return [top];
    }
    const of = row.key;
    const shown = cells.slice(0, most(row));
    const count = cells.length - shown.length;
    return [
      top,
      ...shown.map((cell): Item => ({ kind: 'cell', id: cell.key, row: cell, of })),
      ...(count > 0 ? [{ kind: 'rest' as const, id: `${of} rest`, row, of, count }] : [])
    ];
  });
}

/** Return what can be done with a job, as a menu. */
export function menuOf(row: Row, host: Host): MenuItem[] {
  const { trans } = host;
  const { key, notebook, cell } = row;
  return [
    { label: trans.__('Open'), run: () => host.open(row) },
    ...(host.openLog ? [{ label: trans.__('Open Log'), run: () => host.openLog?.(key) }] : []),
    ...(host.openNotebook && notebook !== null
      ? [{ label: trans.__('Open Notebook'), run: () => host.openNotebook?.(notebook, cell) }]
      : []),
    { label: trans.__('Copy Name'), run: () => host.copy(row.name) },
    ...(row.actions.length > 0 ? [{ label: '' }] : []),
    ...row.actions.map(action => ({
      label:
        confirmationFor(row, action, trans) !== null
          ? trans.__('%1…', actionLabel(row, action, trans))
          : actionLabel(row, action, trans),
      run: () => host.act(row, action)
    }))
  ];
}

function move(key: string, index: number, length: number): number | null {
  const to = {
    ArrowDown: index + 1,
    ArrowUp: index - 1,
    PageDown: index + JUMP,
    PageUp: index - JUMP,
    Home: 0,
    End: length - 1
  }[key];
  return to === undefined ? null : Math.max(0, Math.min(length - 1, to));
}

interface JobListProps {
  /** The jobs that `filter` has let through. */
  branches: readonly Branch[];
  filter: Filter;
  host: Host;
  /** Ref to a function that focuses the list. */
  enter: { current: () => void };
}

/**
 * The list of jobs: one Tab stop, arrows move, Enter opens, Delete asks, the menu key offers.
 *
 * Right and Left unfold and fold the cells of a session.
 */
export function JobList({ branches, filter, host, enter }: JobListProps) {
  const list = useRef<HTMLDivElement>(null);
  const [key, setKey] = useState('');
  const folds = useFolds(host);
  const [whole, setWhole] = useState<ReadonlySet<string>>(new Set());
  const last = useRef(0);
  const [grown, setGrown] = useState({ filter, limit: PAGE });
  const limit = grown.filter === filter ? grown.limit : PAGE;
  const filtered = !isEmpty(filter);
  const shown = itemsOf(
    branches.length > limit ? branches.slice(0, limit) : branches,
    row => filtered || folds.isOpen(row),
    row => (filtered || whole.has(row.key) ? Infinity : CELLS)
  );

  // The current row follows its job when others come and go; if it is removed, a neighbour takes over.
  const found = shown.findIndex(({ id }) => id === key);
  const current = found >= 0 ? found : Math.min(last.current, shown.length - 1);
  last.current = current;

  const element = (index: number) =>
    list.current?.querySelectorAll<HTMLElement>(':scope > [role=row]')[index];
  const goTo = (index: number) => {
    const item = shown[index];
    if (item) {
      setKey(item.id);
      element(index)?.focus();
    }
  };
  enter.current = () => goTo(current);

  useFocusFallback(list, () => element(current));

  const onMenu = useCallback(
    (row: Row, x: number, y: number) => host.menu(menuOf(row, host), x, y),
    [host]
  );

  const onFold = useCallback((row: Row) => folds.toggle(row), [folds]);

  const itemOf = (event: Event): { item: Item; index: number } | null => {
    const target = (event.target as HTMLElement).closest<HTMLElement>('[role=row]');
    const index = shown.findIndex(({ id }) => id === target?.dataset['key']);
    const item = shown[index];
    return item ? { item, index } : null;
  };

  const open = (item: Item) => {
    if (item.kind === 'rest') {
      setWhole(new Set([...whole, item.of]));
    } else {
      host.open(item.row);
    }
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const at = itemOf(event);
    if (!at || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const { item, index } = at;
    const button = element(index)?.querySelector<HTMLElement>('.jaxtrain-more');
    const onButton = event.target === button;
    const folding = item.kind === 'job' && item.cells > 0 && !filtered;
    const to = move(event.key, index, shown.length);
    if (to !== null) {
      goTo(to);
    } else if (event.key === 'ArrowRight') {
      if (folding && !item.open) {
        folds.toggle(item.row);
      } else {
        button?.focus();
      }
    } else if (event.key === 'ArrowLeft') {
      if (onButton) {
        element(index)?.focus();
      } else if (item.kind !== 'job') {
        goTo(shown.findIndex(({ id }) => id === item.of));
      } else if (folding && item.open) {
        folds.toggle(item.row);
      }
    } else if (onButton) {
      return;
    } else if (event.key === 'Enter' || event.key === ' ') {
      open(item);
    } else if (event.key === 'Delete') {
      const { row } = item;
      const wanted = (['delete', 'cancel'] as const).find(name => row.actions.includes(name));
      if (wanted && item.kind !== 'rest') {
        host.act(row, wanted);
      }
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  const onContextMenu = (event: MouseEvent) => {
    const at = itemOf(event);
    if (at && at.item.kind !== 'rest') {
      event.preventDefault();
      event.stopPropagation();
      goTo(at.index);
      const box = element(at.index)?.getBoundingClientRect();
      const byKey = event.button !== 2 && box;
      onMenu(
        at.item.row,
        byKey ? box.left + 16 : event.clientX,
        byKey ? box.bottom : event.clientY
      );
    }
  };

  const more = Math.max(0, branches.length - limit);
  return (
    <>
      <div
        ref={list}
        class="jaxtrain-list"
        role="treegrid"
        aria-label={host.trans.__('Jobs')}
        aria-rowcount={shown.length + more}
        aria-colcount={2}
        onFocusIn={event => {
          const at = itemOf(event);
          if (at) {
            setKey(at.item.id);
          }
        }}
        onKeyDown={onKeyDown}
        onContextMenu={onContextMenu}
        onClick={event => {
          const at = itemOf(event);
          if (at) {
            open(at.item);
          }
        }}
      >
        {shown.map((item, index) => {
          const { id, row } = item;
          const place = { id, row, index, current: index === current, trans: host.trans };
          if (item.kind === 'rest') {
            return <RestRow key={id} {...place} count={item.count} />;
          }
          return item.kind === 'cell' ? (
            <CellRow key={id} {...place} onMenu={onMenu} />
          ) : (
            <JobRow
              key={id}
              {...place}
              cells={item.cells}
              open={item.open}
              onMenu={onMenu}
              onFold={filtered ? null : onFold}
            />
          );
        })}
      </div>
      {more > 0 && (
        <More
          count={more}
          trans={host.trans}
          onMore={() => setGrown({ filter, limit: limit + PAGE })}
        />
      )}
    </>
  );
}

interface MoreProps {
  count: number;
  trans: Translator;
  onMore: () => void;
}

/** The end of a list that is not shown in full: scrolling here or a click shows more. */
function More({ count, trans, onMore }: MoreProps) {
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!button.current || typeof IntersectionObserver === 'undefined') {
      return;
    }
    const observer = new IntersectionObserver(
      entries => {
        if (entries.some(entry => entry.isIntersecting)) {
          onMore();
        }
      },
      { rootMargin: '400px' }
    );
    observer.observe(button.current);
    return () => observer.disconnect();
  });
  return (
    <button ref={button} type="button" class="jaxtrain-button" onClick={onMore}>
      {trans._n('Show %1 more job', 'Show %1 more jobs', count)}
    </button>
  );
}
