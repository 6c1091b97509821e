import { useEffect, useRef, useState } from 'preact/hooks';

import type { Host } from '../base/host';
import type { Pattern } from '../base/protocol';
import type { Translator } from '../base/translator';
import { RankFilter } from './rankfilter';
import type { Reader } from './reader';
import type { Search } from './search';

const PAUSE = 100; // milliseconds after the last letter

/** Return how many matches there are, and which one is looked at. */
export function counted(search: Search | null, trans: Translator): string {
  if (!search) {
    return '';
  }
  if (search.error) {
    return search.error;
  }
  const count = search.count.toLocaleString();
  if (search.count === 0) {
    return search.complete ? trans.__('no matches') : trans.__('searching…');
  }
  const all = search.complete ? count : trans.__('%1 so far', count);
  return search.at
    ? trans.__('%1 of %2', search.at.number.toLocaleString(), all)
    : trans._n('%2 match', '%2 matches', search.count, all);
}

interface SwitchProps {
  label: string;
  title: string;
  on: boolean;
  onClick: () => void;
}

function Switch({ label, title, on, onClick }: SwitchProps) {
  return (
    <button
      type="button"
      class="jaxtrain-button"
      title={title}
      aria-label={title}
      aria-pressed={on}
      onClick={onClick}
    >
      {label}
    </button>
  );
}

interface SearchBarProps {
  reader: Reader;
  trans: Translator;
  /** Ref to the field. */
  field: { current: HTMLInputElement | null };
  onLeave: () => void;
}

function SearchBar({ reader, trans, field, onLeave }: SearchBarProps) {
  const [pattern, setPattern] = useState<Pattern>(reader.pattern);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const change = (part: Partial<Pattern>, pause = 0) => {
    const next = { ...pattern, ...part };
    setPattern(next);
    reader.set({ pattern: next });
    clearTimeout(timer.current);
    const search = () => reader.search(next.pattern ? next : null);
    if (pause > 0) {
      timer.current = setTimeout(search, pause);
    } else {
      search();
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter') {
      const { search } = reader.store;
      const current = search && search.pattern.pattern === pattern.pattern;
      if (current) {
        void reader.next(event.shiftKey);
      } else {
        change({});
      }
    } else if (event.key === 'Escape') {
      change({ pattern: '' });
      onLeave();
    } else if (event.key === 'ArrowDown') {
      onLeave();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  const { search } = reader.store;
  return (
    <div class="jaxtrain-log-search" role="search" aria-label={trans.__('Log')}>
      <input
        ref={field}
        type="search"
        value={pattern.pattern}
        maxLength={1000}
        placeholder={trans.__('Search')}
        aria-label={trans.__('Search the log')}
        aria-invalid={search?.error ? true : undefined}
        onInput={event => change({ pattern: event.currentTarget.value }, PAUSE)}
        onKeyDown={onKeyDown}
      />
      <span class="jaxtrain-log-count" role="status">
        {counted(search, trans)}
      </span>
      <Switch
        label=".*"
        title={trans.__('Regular expression')}
        on={pattern.regex}
        onClick={() => change({ regex: !pattern.regex })}
      />
      <Switch
        label="Aa"
        title={trans.__('Match case')}
        on={pattern.case}
        onClick={() => change({ case: !pattern.case })}
      />
      <button
        type="button"
        class="jaxtrain-button"
        disabled={!search?.count}
        aria-label={trans.__('Previous match')}
        title={trans.__('Previous match (N)')}
        onClick={() => void reader.next(true)}
      >
        ↑
      </button>
      <button
        type="button"
        class="jaxtrain-button"
        disabled={!search?.count}
        aria-label={trans.__('Next match')}
        title={trans.__('Next match (n)')}
        onClick={() => void reader.next(false)}
      >
        ↓
      </button>
    </div>
  );
}

interface ToolbarProps {
  reader: Reader;
  host: Host;
  field: { current: HTMLInputElement | null };
  onLeave: () => void;
}

/** The toolbar of the log. */
export function Toolbar({ reader, host, field, onLeave }: ToolbarProps) {
  const { trans } = host;
  const { store, times, filters, help } = reader;
  const { sources, include, exclude, raw } = store.choice;
  const filtered = include !== null || exclude !== null || raw;
  return (
    <div class="jaxtrain-log-bar" role="group" aria-label={trans.__('Log')}>
      <SearchBar reader={reader} trans={trans} field={field} onLeave={onLeave} />
      <RankFilter
        store={store}
        trans={trans}
        onChoose={chosen => reader.show({ sources: chosen })}
      />
      <button
        type="button"
        class="jaxtrain-button"
        aria-expanded={filters}
        data-on={filtered || undefined}
        title={trans.__('Filter, or go to a line or a time (g)')}
        onClick={() => reader.set({ filters: !filters })}
      >
        {filtered ? trans.__('filtered') : trans.__('filter')}
      </button>
      <button
        type="button"
        class="jaxtrain-button"
        title={trans.__('Change timestamps (t)')}
        onClick={() => reader.nextTimes()}
      >
        {
          {
            clock: trans.__('time of day'),
            since: trans.__('since start'),
            off: trans.__('no timestamps')
          }[times]
        }
      </button>
      <button
        type="button"
        class="jaxtrain-button"
        title={trans.__('Go to the first error (e)')}
        onClick={() => void reader.goToFirstError()}
      >
        {trans.__('first error')}
      </button>
      {host.save && (
        <button
          type="button"
          class="jaxtrain-button"
          title={trans.__('Save as a file')}
          onClick={() =>
            host.save?.(store.key, sources?.length === 1 ? (sources[0] ?? null) : null)
          }
        >
          {trans.__('Save')}
        </button>
      )}
      <button
        type="button"
        class="jaxtrain-button"
        aria-label={trans.__('Keys')}
        title={trans.__('Keys (?)')}
        aria-expanded={help}
        onClick={() => reader.set({ help: !help })}
      >
        ?
      </button>
    </div>
  );
}
