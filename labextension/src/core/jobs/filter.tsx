/** The filter of the list: jobs in a chosen group that contain all words. */

import type { Row } from '../base/protocol';
import { group, type Group, groupLabel, GROUPS, stateLabel } from '../base/states';
import type { Translator } from '../base/translator';
import { type Branch, countBranches } from './branches';

export interface Filter {
  text: string;
  groups: ReadonlySet<Group>;
}

export const NO_FILTER: Filter = { text: '', groups: new Set() };

/** Return whether a filter lets all jobs through. */
export function isEmpty({ text, groups }: Filter): boolean {
  return text.trim() === '' && groups.size === 0;
}

/** Return the jobs that match a filter, in their order; a session also stays for cells that match. */
export function filterBranches(
  branches: readonly Branch[],
  filter: Filter,
  trans: Translator
): readonly Branch[] {
  if (isEmpty(filter)) {
    return branches;
  }
  const wanted = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (row: Row): boolean => {
    if (filter.groups.size > 0 && !filter.groups.has(group(row.state))) {
      return false;
    }
    const text = searchable(row, trans);
    return wanted.every(word => text.includes(word));
  };
  return branches.flatMap(({ row, cells }) => {
    const found = cells.filter(matches);
    return found.length > 0 || matches(row) ? [{ row, cells: found }] : [];
  });
}

function searchable(row: Row, trans: Translator): string {
  const { name, key, state, reason, place, shape, runtime, notebook } = row;
  return [name, key, state, stateLabel(state, trans), reason, place, shape, runtime, notebook]
    .join('\n')
    .toLowerCase();
}

interface FilterBarProps {
  branches: readonly Branch[];
  filter: Filter;
  trans: Translator;
  onChange: (filter: Filter) => void;
  /** The Down key moves on to the list. */
  onLeave: () => void;
}

/** Filters by words and by groups of states, with the number of jobs in each group. */
export function FilterBar({ branches, filter, trans, onChange, onLeave }: FilterBarProps) {
  const counts = countBranches(branches);
  const toggle = (name: Group) => {
    const groups = new Set(filter.groups);
    if (!groups.delete(name)) {
      groups.add(name);
    }
    onChange({ ...filter, groups });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Escape' && filter.text) {
      event.stopPropagation();
      onChange({ ...filter, text: '' });
    } else if (event.key === 'ArrowDown') {
      event.preventDefault();
      onLeave();
    }
  };
  return (
    <div class="jaxtrain-filter" role="search" aria-label={trans.__('Jobs')}>
      <input
        type="search"
        value={filter.text}
        placeholder={trans.__('Filter jobs')}
        aria-label={trans.__('Filter jobs by name, state, reason or place')}
        onInput={event => onChange({ ...filter, text: event.currentTarget.value })}
        onKeyDown={onKeyDown}
      />
      <div class="jaxtrain-chips" role="group" aria-label={trans.__('Show only')}>
        {/* All of them at any time: one that comes with the first job of its state would push the list. */}
        {GROUPS.map(name => (
          <button
            key={name}
            type="button"
            class="jaxtrain-chip"
            data-group={name}
            data-none={counts[name] === 0}
            aria-pressed={filter.groups.has(name)}
            onClick={() => toggle(name)}
          >
            <span class="jaxtrain-dot" aria-hidden="true" />
            {groupLabel(name, trans)} <b>{counts[name]}</b>
          </button>
        ))}
      </div>
    </div>
  );
}
