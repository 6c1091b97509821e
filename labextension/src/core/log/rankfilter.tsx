import { useState } from 'preact/hooks';

import { Entry } from '../base/entry';
import { sanitize } from '../base/format';
import type { Source } from '../base/protocol';
import { formatRanks, parseRanks } from '../base/ranks';
import type { Translator } from '../base/translator';
import { Rank } from './row';
import type { LogStore } from './store';

const CHIPS = 8; // logs that have a chip of their own in the toolbar

/** Return the choice after a click: the first one alone, then more; none is all. */
export function toggled(chosen: readonly Source[] | null, source: Source): Source[] | null {
  if (typeof source === 'string') {
    return chosen?.includes(source) ? null : [source]; // other containers are not merged
  }
  const ranks = (chosen ?? []).filter(each => typeof each === 'number');
  const next = ranks.includes(source)
    ? ranks.filter(each => each !== source)
    : [...ranks, source].sort((a, b) => a - b);
  return next.length > 0 ? next : null;
}

interface RankFilterProps {
  store: LogStore;
  trans: Translator;
  onChoose: (sources: Source[] | null) => void;
}

/** Which logs to show: a chip for each, or for many a button with a list. */
export function RankFilter({ store, trans, onChoose }: RankFilterProps) {
  const { sources, choice } = store;
  const [open, setOpen] = useState(false);
  if (sources.length < 2) {
    return null;
  }
  const chips = sources.map(source => (
    <button
      key={source}
      type="button"
      class="jaxtrain-log-chip"
      aria-pressed={choice.sources?.includes(source) ?? false}
      aria-label={
        typeof source === 'number'
          ? trans.__('Only rank %1', source)
          : trans.__('Only %1', sanitize(source))
      }
      onClick={() => onChoose(toggled(choice.sources, source))}
    >
      <Rank source={source} trans={trans} />
    </button>
  ));
  if (sources.length <= CHIPS) {
    return (
      <div class="jaxtrain-log-chips" role="group" aria-label={trans.__('Show only')}>
        {chips}
      </div>
    );
  }
  const chosen = choice.sources;
  return (
    <div
      class="jaxtrain-log-ranks"
      onFocusOut={({ currentTarget, relatedTarget }) => {
        if (relatedTarget instanceof Node && !currentTarget.contains(relatedTarget)) {
          setOpen(false);
        }
      }}
      onKeyDown={event => {
        if (event.key === 'Escape' && open) {
          event.stopPropagation();
          setOpen(false);
          event.currentTarget.querySelector('button')?.focus();
        }
      }}
    >
      <button
        type="button"
        class="jaxtrain-button"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        {chosen
          ? trans.__('%1 of %2 logs ▾', chosen.length, sources.length)
          : trans.__('all %1 logs ▾', sources.length)}
      </button>
      {open && (
        <div class="jaxtrain-log-popup" role="group" aria-label={trans.__('Show only')}>
          <Entry
            placeholder={trans.__('Ranks, such as 0-3, 7')}
            aria-label={trans.__('Ranks, such as 0-3, 7')}
            value={formatRanks(chosen?.filter(source => typeof source === 'number') ?? [])}
            onEnter={text => onChoose(parseRanks(text, sources))}
          />
          <div class="jaxtrain-log-chips">{chips}</div>
          <button type="button" class="jaxtrain-button" onClick={() => onChoose(null)}>
            {trans.__('Show all')}
          </button>
        </div>
      )}
    </div>
  );
}
