import type { Filter } from './filter';
import type { Row } from '../base/protocol';
import { count, GROUPS, groupWord, type Group } from '../base/states';
import type { Words } from '../base/translator';

interface FilterBarProps {
  rows: readonly Row[];
  filter: Filter;
  words: Words;
  onChange: (filter: Filter) => void;
  /** The user goes on to the list by the Down key. */
  onLeave: () => void;
}

/** Which jobs to show: by words, and by groups of states, each with its number. */
export function FilterBar({ rows, filter, words, onChange, onLeave }: FilterBarProps) {
  const counts = count(rows);
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
    <div class="jaxtrain-filter" role="search" aria-label={words.__('Jobs')}>
      <input
        type="search"
        value={filter.text}
        placeholder={words.__('Filter jobs')}
        aria-label={words.__('Filter jobs by words of their name, state, reason or place')}
        onInput={event => onChange({ ...filter, text: event.currentTarget.value })}
        onKeyDown={onKeyDown}
      />
      <div class="jaxtrain-chips" role="group" aria-label={words.__('Show only')}>
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
            {groupWord(name, words)} <b>{counts[name]}</b>
          </button>
        ))}
      </div>
    </div>
  );
}
