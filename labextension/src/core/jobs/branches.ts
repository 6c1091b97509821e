/** The list as a tree: the cells of a session are below it, and live sessions come first. */

import type { Row } from '../base/protocol';
import { type Group, group, GROUPS } from '../base/states';

/** A job, and the cells that it has run if it is a session, newest first. */
export interface Branch {
  row: Row;
  cells: readonly Row[];
}

const NONE: readonly Row[] = [];

/** Return the tree of rows that are newest first. */
export function branchesOf(rows: readonly Row[]): Branch[] {
  const cells = new Map<string, Row[]>();
  for (const { session, uid } of rows) {
    if (session && uid !== null) {
      cells.set(uid, []);
    }
  }
  const tops: Row[] = [];
  for (const row of rows) {
    // Cells whose session was deleted stand by themselves.
    (cells.get(row.cell_of?.uid ?? '') ?? tops).push(row);
  }
  const first = tops.filter(isLive);
  return [...first, ...tops.filter(row => !isLive(row))].map(row => ({
    row,
    cells: (row.session && cells.get(row.uid ?? '')) ?? NONE
  }));
}

function isLive({ session, active }: Row): boolean {
  return session !== null && active;
}

/** Count the jobs in each group of states; a session also counts in the groups of its cells. */
export function countBranches(branches: readonly Branch[]): Record<Group, number> {
  const counts = Object.fromEntries(GROUPS.map(name => [name, 0])) as Record<Group, number>;
  for (const { row, cells } of branches) {
    for (const name of new Set([row, ...cells].map(({ state }) => group(state)))) {
      counts[name]++;
    }
  }
  return counts;
}
