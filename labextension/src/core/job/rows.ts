/** Rows of a table that open something: one Tab stop, arrows move, Enter and a click open. */

import type { RefObject } from 'preact';
import { useRef, useState } from 'preact/hooks';

const JUMP = 10;

export interface TableRows {
  /** What the table has. */
  table: {
    ref: RefObject<HTMLTableElement | null>;
    onClick: (event: Event) => void;
    onKeyDown: (event: KeyboardEvent) => void;
  };
  /** The number of the row that Tab goes to. */
  current: number;
}

/** `open` gets the number of a row; the rows are those of the table's body. */
export function useTableRows(count: number, open: (index: number) => void): TableRows {
  const ref = useRef<HTMLTableElement>(null);
  const [last, setCurrent] = useState(0);
  const current = Math.max(0, Math.min(last, count - 1));
  const rows = () => [...(ref.current?.querySelectorAll<HTMLElement>('tbody tr') ?? [])];
  const indexOf = (event: Event): number => {
    const row = (event.target as HTMLElement).closest<HTMLElement>('tbody tr');
    return row ? rows().indexOf(row) : -1;
  };
  const onClick = (event: Event) => {
    const index = indexOf(event);
    if (index >= 0) {
      setCurrent(index);
      open(index);
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const at = indexOf(event);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const to = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      PageDown: at + JUMP,
      PageUp: at - JUMP,
      Home: 0,
      End: count - 1
    }[event.key];
    if (to !== undefined) {
      const index = Math.max(0, Math.min(count - 1, to));
      setCurrent(index);
      rows()[index]?.focus();
    } else if (event.key === 'Enter' || event.key === ' ') {
      onClick(event);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  return { table: { ref, onClick, onKeyDown }, current };
}
