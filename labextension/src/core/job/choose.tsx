import { plain } from '../base/format';
import { readRanks } from '../log/ranks';
import type { Metrics } from '../plots/metrics';
import type { Words } from '../base/translator';
import { Entry } from '../base/entry';
import type { Look } from './plotsettings';

const CHIPS = 16; // ranks that have a chip of their own
/** How many ranks may be drawn over one another. */
export const MOST_RANKS = 12;

interface ChooseProps {
  metrics: Metrics;
  look: Look;
  change: (part: Partial<Look>) => void;
  words: Words;
}

/** Which ranks and which metrics of a job are drawn. */
export function Choose({ metrics, look, change, words }: ChooseProps) {
  const ranks = metrics.ranks();
  const { names } = metrics;
  const setRanks = (chosen: readonly number[]) =>
    change({ ranks: [...chosen].sort((a, b) => a - b).slice(0, MOST_RANKS) });
  return (
    <div class="jaxtrain-choose">
      {ranks.length > 1 && (
        <div class="jaxtrain-chips" role="group" aria-label={words.__('Ranks to draw')}>
          <span>{words.__('Ranks')}</span>
          <Chip on={look.ranks.length === 0} onClick={() => setRanks([])}>
            {words.__('first')}
          </Chip>
          {ranks.length <= CHIPS ? (
            ranks.map(rank => (
              <Chip
                key={rank}
                on={look.ranks.includes(rank)}
                name={words.__('rank %1', rank)}
                onClick={() => setRanks(without(look.ranks, rank) ?? [...look.ranks, rank])}
              >
                {rank}
              </Chip>
            ))
          ) : (
            <Entry
              placeholder="0-3, 7"
              aria-label={words.__('Ranks to draw, such as 0-3, 7')}
              value={look.ranks.join(', ')}
              onEnter={text => setRanks((readRanks(text, ranks) ?? []).map(Number))}
            />
          )}
          {look.ranks.length >= MOST_RANKS && (
            <span class="jaxtrain-quiet">{words.__('no more than %1', MOST_RANKS)}</span>
          )}
        </div>
      )}
      {names.length > 1 && (
        <div class="jaxtrain-chips" role="group" aria-label={words.__('Metrics to draw')}>
          <span>{words.__('Metrics')}</span>
          {names.map(name => (
            <Chip
              key={name}
              on={!look.hidden.includes(name)}
              onClick={() =>
                change({ hidden: without(look.hidden, name) ?? [...look.hidden, name] })
              }
            >
              {plain(name)}
            </Chip>
          ))}
        </div>
      )}
    </div>
  );
}

/** Give a list without an item; null when it is not in the list. */
function without<T>(list: readonly T[], item: T): T[] | null {
  return list.includes(item) ? list.filter(each => each !== item) : null;
}

interface ChipProps {
  on: boolean;
  name?: string;
  onClick: () => void;
  children: string | number;
}

function Chip({ on, name, onClick, children }: ChipProps) {
  return (
    <button
      type="button"
      class="jaxtrain-chip"
      aria-pressed={on}
      aria-label={name}
      onClick={onClick}
    >
      {children}
    </button>
  );
}
