import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

import { actionLabel, confirmationFor } from '../base/actions';
import { useFocusFallback } from '../base/hooks';
import type { Host, MenuItem } from '../base/host';
import type { Row } from '../base/protocol';
import type { Translator } from '../base/translator';
import type { Filter } from './filter';
import { JobRow } from './row';

const PAGE = 100; // rows that are made at once
const JUMP = 10;

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
          ? trans.__('%1…', actionLabel(action, trans))
          : actionLabel(action, trans),
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
  /** The rows that `filter` has let through. */
  rows: readonly Row[];
  filter: Filter;
  host: Host;
  /** Ref to a function that focuses the list. */
  enter: { current: () => void };
}

/** The list of jobs: one Tab stop, arrows move, Enter opens, Delete asks, the menu key offers. */
export function JobList({ rows, filter, host, enter }: JobListProps) {
  const list = useRef<HTMLDivElement>(null);
  const [key, setKey] = useState('');
  const last = useRef(0);
  const [grown, setGrown] = useState({ filter, limit: PAGE });
  const limit = grown.filter === filter ? grown.limit : PAGE;
  const shown = rows.length > limit ? rows.slice(0, limit) : rows;

  // The current row stays the same job when others come and go; when it goes, its neighbour is.
  const found = shown.findIndex(row => row.key === key);
  const current = found >= 0 ? found : Math.min(last.current, shown.length - 1);
  last.current = current;

  const element = (index: number) =>
    list.current?.querySelectorAll<HTMLElement>(':scope > [role=row]')[index];
  const goTo = (index: number) => {
    const row = shown[index];
    if (row) {
      setKey(row.key);
      element(index)?.focus();
    }
  };
  enter.current = () => goTo(current);

  useFocusFallback(list, () => element(current));

  const onMenu = useCallback(
    (row: Row, x: number, y: number) => host.menu(menuOf(row, host), x, y),
    [host]
  );

  const rowOf = (event: Event): { row: Row; index: number } | null => {
    const target = (event.target as HTMLElement).closest<HTMLElement>('[role=row]');
    const index = shown.findIndex(each => each.key === target?.dataset['key']);
    const row = shown[index];
    return row ? { row, index } : null;
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const at = rowOf(event);
    if (!at || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const button = element(at.index)?.querySelector<HTMLElement>('button');
    const onButton = event.target === button;
    const to = move(event.key, at.index, shown.length);
    if (to !== null) {
      goTo(to);
    } else if (event.key === 'ArrowRight') {
      button?.focus();
    } else if (event.key === 'ArrowLeft') {
      element(at.index)?.focus();
    } else if (onButton) {
      return;
    } else if (event.key === 'Enter' || event.key === ' ') {
      host.open(at.row);
    } else if (event.key === 'Delete') {
      const wanted = (['delete', 'cancel'] as const).find(name => at.row.actions.includes(name));
      if (wanted) {
        host.act(at.row, wanted);
      }
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  const onContextMenu = (event: MouseEvent) => {
    const at = rowOf(event);
    if (at) {
      event.preventDefault();
      event.stopPropagation();
      goTo(at.index);
      const box = element(at.index)?.getBoundingClientRect();
      const byKey = event.button !== 2 && box;
      onMenu(at.row, byKey ? box.left + 16 : event.clientX, byKey ? box.bottom : event.clientY);
    }
  };

  const more = rows.length - shown.length;
  return (
    <>
      <div
        ref={list}
        class="jaxtrain-list"
        role="grid"
        aria-label={host.trans.__('Jobs')}
        aria-rowcount={rows.length}
        aria-colcount={2}
        onFocusIn={event => {
          const at = rowOf(event);
          if (at) {
            setKey(at.row.key);
          }
        }}
        onKeyDown={onKeyDown}
        onContextMenu={onContextMenu}
        onClick={event => {
          const at = rowOf(event);
          if (at) {
            host.open(at.row);
          }
        }}
      >
        {shown.map((row, index) => (
          <JobRow
            key={row.key}
            row={row}
            index={index}
            current={index === current}
            trans={host.trans}
            onMenu={onMenu}
          />
        ))}
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
