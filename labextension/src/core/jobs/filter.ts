/** Which jobs a list shows: all words have to be found, in one of the chosen groups. */

import type { Row } from '../base/protocol';
import { group, stateWord, type Group } from '../base/states';
import type { Words } from '../base/translator';

export interface Filter {
  text: string;
  groups: ReadonlySet<Group>;
}

export const NO_FILTER: Filter = { text: '', groups: new Set() };

/** Give the rows that a filter lets through, in their order. */
export function filterRows(rows: readonly Row[], filter: Filter, words: Words): readonly Row[] {
  const wanted = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0 && filter.groups.size === 0) {
    return rows;
  }
  return rows.filter(row => {
    if (filter.groups.size > 0 && !filter.groups.has(group(row.state))) {
      return false;
    }
    const text = searchable(row, words);
    return wanted.every(word => text.includes(word));
  });
}

function searchable(row: Row, words: Words): string {
  const { name, key, state, reason, place, shape, runtime, notebook } = row;
  return [name, key, state, stateWord(state, words), reason, place, shape, runtime, notebook]
    .join('\n')
    .toLowerCase();
}
