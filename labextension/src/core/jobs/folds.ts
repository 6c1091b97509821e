/** Which sessions show their cells: live ones, unless the user has said otherwise. */

import { useMemo, useState } from 'preact/hooks';

import type { Host } from '../base/host';
import type { Row } from '../base/protocol';
import { loadItem, saveItem } from '../base/storage';

const NAME = 'jobs-open';
const MOST = 50; // sessions for which it is remembered

export interface Folds {
  isOpen(row: Row): boolean;
  toggle(row: Row): void;
}

export function useFolds(host: Host): Folds {
  const [said, setSaid] = useState(() => loadItem<Record<string, boolean>>(host, NAME));
  return useMemo(() => {
    const isOpen = ({ key, active }: Row) =>
      (Object.hasOwn(said, key) ? said[key] : undefined) ?? active;
    return {
      isOpen,
      toggle: row => {
        const others = Object.entries(said).filter(([key]) => key !== row.key);
        const next = Object.fromEntries([...others.slice(1 - MOST), [row.key, !isOpen(row)]]);
        setSaid(next);
        saveItem(host, NAME, next);
      }
    };
  }, [host, said]);
}
