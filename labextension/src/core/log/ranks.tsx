import { useState } from 'preact/hooks';

import { plain } from '../base/format';
import { Entry } from '../base/entry';
import type { Words } from '../base/translator';
import type { Source } from '../base/logprotocol';
import { Rank } from './row';
import type { LogStore } from './store';

const CHIPS = 8; // logs that have a chip of their own in the toolbar

/** Give the choice after a click: the first one alone, then more; none is all. */
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

/** Read `0-3, 7` as ranks, those that there are; null when it is something else. */
export function readRanks(text: string, sources: readonly Source[]): Source[] | null {
  const known = sources.filter(source => typeof source === 'number');
  const wanted = new Set<number>();
  for (const part of text.split(/[\s,]+/).filter(Boolean)) {
    const found = /^(\d+)(?:-(\d+))?$/.exec(part);
    if (!found) {
      return null;
    }
    const [low, high] = [Number(found[1]), Number(found[2] ?? found[1])];
    known.filter(rank => rank >= low && rank <= high).forEach(rank => wanted.add(rank));
  }
  return wanted.size > 0 ? [...wanted].sort((a, b) => a - b) : null;
}

interface RanksProps {
  store: LogStore;
  words: Words;
  onChoose: (sources: Source[] | null) => void;
}

/** Whose lines to show: a chip for each, or for many a button with a list. */
export function Ranks({ store, words, onChoose }: RanksProps) {
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
          ? words.__('Only rank %1', source)
          : words.__('Only %1', plain(source))
      }
      onClick={() => onChoose(toggled(choice.sources, source))}
    >
      <Rank source={source} words={words} />
    </button>
  ));
  if (sources.length <= CHIPS) {
    return (
      <div class="jaxtrain-log-chips" role="group" aria-label={words.__('Show only')}>
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
          ? words.__('%1 of %2 logs ▾', chosen.length, sources.length)
          : words.__('all %1 logs ▾', sources.length)}
      </button>
      {open && (
        <div class="jaxtrain-log-popup" role="group" aria-label={words.__('Show only')}>
          <Entry
            placeholder={words.__('Ranks, such as 0-3, 7')}
            aria-label={words.__('Ranks, such as 0-3, 7')}
            value={chosen?.filter(source => typeof source === 'number').join(', ') ?? ''}
            onEnter={text => onChoose(readRanks(text, sources))}
          />
          <div class="jaxtrain-log-chips">{chips}</div>
          <button type="button" class="jaxtrain-button" onClick={() => onChoose(null)}>
            {words.__('Show all')}
          </button>
        </div>
      )}
    </div>
  );
}
