import { Entry } from '../base/entry';
import { sanitize } from '../base/format';
import { formatRanks, parseRanks } from '../base/ranks';
import type { Translator } from '../base/translator';
import type { Metrics } from '../plots/metrics';
import type { PlotSettings } from './plotsettings';

const CHIPS = 16; // ranks that have a chip of their own
/** How many ranks may be drawn over one another. */
export const MOST_RANKS = 12;

interface ChooseProps {
  metrics: Metrics;
  settings: PlotSettings;
  change: (part: Partial<PlotSettings>) => void;
  trans: Translator;
}

/** Which ranks and which metrics of a job are drawn. */
export function Choose({ metrics, settings, change, trans }: ChooseProps) {
  const ranks = metrics.ranks();
  const { names } = metrics;
  const setRanks = (chosen: readonly number[]) =>
    change({ ranks: [...chosen].sort((a, b) => a - b).slice(0, MOST_RANKS) });
  return (
    <div class="jaxtrain-choose">
      {ranks.length > 1 && (
        <div class="jaxtrain-chips" role="group" aria-label={trans.__('Ranks to plot')}>
          <span>{trans.__('Ranks')}</span>
          <Chip on={settings.ranks.length === 0} onClick={() => setRanks([])}>
            {trans.__('first')}
          </Chip>
          {ranks.length <= CHIPS ? (
            ranks.map(rank => (
              <Chip
                key={rank}
                on={settings.ranks.includes(rank)}
                name={trans.__('rank %1', rank)}
                onClick={() => setRanks(without(settings.ranks, rank) ?? [...settings.ranks, rank])}
              >
                {rank}
              </Chip>
            ))
          ) : (
            <Entry
              placeholder="0-3, 7"
              aria-label={trans.__('Ranks to plot, such as 0-3, 7')}
              value={formatRanks(settings.ranks)}
              onEnter={text => setRanks(parseRanks(text, ranks) ?? [])}
            />
          )}
          {settings.ranks.length >= MOST_RANKS && (
            <span class="jaxtrain-quiet">{trans.__('at most %1', MOST_RANKS)}</span>
          )}
        </div>
      )}
      {names.length > 1 && (
        <div class="jaxtrain-chips" role="group" aria-label={trans.__('Metrics to plot')}>
          <span>{trans.__('Metrics')}</span>
          {names.map(name => (
            <Chip
              key={name}
              on={!settings.hidden.includes(name)}
              onClick={() =>
                change({ hidden: without(settings.hidden, name) ?? [...settings.hidden, name] })
              }
            >
              {sanitize(name)}
            </Chip>
          ))}
        </div>
      )}
    </div>
  );
}

/** Return a list without an item; null when it is not in the list. */
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
