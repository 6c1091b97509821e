import { useEffect, useMemo, useState } from 'preact/hooks';

import { sanitize } from '../base/format';
import { useObservable } from '../base/hooks';
import type { Host } from '../base/host';
import { Age } from '../base/progress';
import { group, stateLabel } from '../base/states';
import { MOST_COMPARED } from './plotsettings';
import type { JobStore } from './store';

const SHOWN = 30;

interface CompareProps {
  store: JobStore;
  /** The keys of those that are drawn. */
  chosen: readonly string[];
  onToggle: (key: string) => void;
  host: Host;
}

/** Choose other jobs, by words of their names, to draw their metrics over this one's. */
export function Compare({ store, chosen, onToggle, host }: CompareProps) {
  const { trans } = host;
  const list = useMemo(() => store.list(), [store]);
  useEffect(() => () => list.dispose(), [list]);
  useObservable(list);
  const [text, setText] = useState('');
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = list.rows.filter(({ key, name, state }) => {
    const said = `${name} ${key} ${stateLabel(state, trans)}`.toLowerCase();
    return key !== store.key && wanted.every(word => said.includes(word));
  });
  const full = chosen.length >= MOST_COMPARED;
  return (
    <div class="jaxtrain-compare" role="group" aria-label={trans.__('Compare with other jobs')}>
      <input
        type="search"
        value={text}
        placeholder={trans.__('Filter jobs')}
        aria-label={trans.__('Filter the jobs to compare with')}
        onInput={event => setText(event.currentTarget.value)}
      />
      {list.loaded ? (
        <ul>
          {found.slice(0, SHOWN).map(({ key, name, state, created }) => (
            <li key={key} data-group={group(state)}>
              <label>
                <input
                  type="checkbox"
                  checked={chosen.includes(key)}
                  disabled={full && !chosen.includes(key)}
                  onChange={() => onToggle(key)}
                />
                <span class="jaxtrain-dot" aria-hidden="true" />
                <span class="jaxtrain-name">{sanitize(name)}</span>
                {created > 0 && <Age since={created} trans={trans} />}
              </label>
            </li>
          ))}
        </ul>
      ) : (
        <p class="jaxtrain-quiet">{trans.__('Loading jobs…')}</p>
      )}
      {list.loaded && found.length === 0 && (
        <p class="jaxtrain-quiet">{trans.__('No matching jobs')}</p>
      )}
      {found.length > SHOWN && (
        <p class="jaxtrain-quiet">{trans.__('%1 more: filter by name', found.length - SHOWN)}</p>
      )}
    </div>
  );
}
