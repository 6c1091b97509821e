import { useEffect, useMemo, useState } from 'preact/hooks';

import { plain } from '../base/format';
import type { Host } from '../base/host';
import { group, stateWord } from '../base/states';
import type { JobStore } from './stores';
import { Age } from '../jobs/row';
import { useWatched } from '../base/hooks';
import { MOST_COMPARED } from './plotsettings';

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
  const { words } = host;
  const list = useMemo(() => store.list(), [store]);
  useEffect(() => () => list.dispose(), [list]);
  useWatched(list);
  const [text, setText] = useState('');
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = list.rows.filter(({ key, name, state }) => {
    const said = `${name} ${key} ${stateWord(state, words)}`.toLowerCase();
    return key !== store.key && wanted.every(word => said.includes(word));
  });
  const full = chosen.length >= MOST_COMPARED;
  return (
    <div class="jaxtrain-compare" role="group" aria-label={words.__('Compare with other jobs')}>
      <input
        type="search"
        value={text}
        placeholder={words.__('Filter jobs')}
        aria-label={words.__('Filter the jobs to compare with')}
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
                <span class="jaxtrain-name">{plain(name)}</span>
                {created > 0 && <Age since={created} words={words} />}
              </label>
            </li>
          ))}
        </ul>
      ) : (
        <p class="jaxtrain-quiet">{words.__('Looking for jobs…')}</p>
      )}
      {list.loaded && found.length === 0 && (
        <p class="jaxtrain-quiet">{words.__('No job matches.')}</p>
      )}
      {found.length > SHOWN && (
        <p class="jaxtrain-quiet">
          {words.__('%1 more: filter by words of the name.', found.length - SHOWN)}
        </p>
      )}
    </div>
  );
}
