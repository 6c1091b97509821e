import { Component, type ComponentChild } from 'preact';
import { useRef, useState } from 'preact/hooks';

import { sanitize } from '../base/format';
import type { Host } from '../base/host';
import type { Initializer, Rank, Row } from '../base/protocol';
import { rankStateLabel } from '../base/states';
import type { Translator } from '../base/translator';
import { Section } from './section';

const JUMP = 10;

const SIGNALS: Partial<Record<number, string>> = {
  2: 'SIGINT',
  4: 'SIGILL',
  6: 'SIGABRT',
  7: 'SIGBUS',
  8: 'SIGFPE',
  9: 'SIGKILL',
  11: 'SIGSEGV',
  15: 'SIGTERM'
};

/** Return how a process ended: `0`, `1`, `SIGKILL`. */
function exitText(exit: number | null, trans: Translator): string {
  if (exit === null) {
    return '';
  }
  return exit < 0 ? (SIGNALS[-exit] ?? trans.__('signal %1', -exit)) : String(exit);
}

interface RanksProps {
  row: Row;
  ranks: readonly Rank[];
  /** The rank that failed first. */
  failed: number | null;
  host: Host;
}

/** Count the ranks by state: `3 Running · 1 Failed`. */
function counts(ranks: readonly Rank[], trans: Translator): string {
  const found = new Map<string, number>();
  for (const { state } of ranks) {
    found.set(state, (found.get(state) ?? 0) + 1);
  }
  return [...found].map(([state, count]) => `${count} ${rankStateLabel(state, trans)}`).join(' · ');
}

/** The ranks of a job; Enter or a click opens what one has printed, where the host can. */
export function Ranks({ row, ranks, failed, host }: RanksProps) {
  const { trans } = host;
  const table = useRef<HTMLTableElement>(null);
  const [current, setCurrent] = useState(0);
  if (ranks.length === 0) {
    return null;
  }
  const pods = row.cluster;
  const opens = host.openLog !== undefined;
  const here = Math.min(current, ranks.length - 1);

  const rankOf = (event: Event): number | null => {
    const line = (event.target as HTMLElement).closest<HTMLElement>('tr[data-rank]');
    return line ? Number(line.dataset['rank']) : null;
  };
  const open = (event: Event) => {
    const rank = rankOf(event);
    if (rank !== null) {
      setCurrent(ranks.findIndex(each => each.rank === rank));
      host.openLog?.(row.key, rank);
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (rankOf(event) === null || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const to = {
      ArrowDown: here + 1,
      ArrowUp: here - 1,
      PageDown: here + JUMP,
      PageUp: here - JUMP,
      Home: 0,
      End: ranks.length - 1
    }[event.key];
    if (to !== undefined) {
      const index = Math.max(0, Math.min(ranks.length - 1, to));
      setCurrent(index);
      table.current?.querySelectorAll<HTMLElement>('tbody tr')[index]?.focus();
    } else if (event.key === 'Enter' || event.key === ' ') {
      open(event);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    <Section
      name="ranks"
      title={trans.__('Ranks')}
      host={host}
      note={counts(ranks, trans)}
      tools={
        host.save && (
          <button
            type="button"
            class="jaxtrain-small"
            title={trans.__('Save the logs of all ranks as a zip file')}
            onClick={() => host.save?.(row.key, null)}
          >
            {trans.__('Save logs')}
          </button>
        )
      }
    >
      <div class="jaxtrain-scroll" data-opens={opens}>
        <table
          ref={table}
          class="jaxtrain-ranks"
          onClick={opens ? open : undefined}
          onKeyDown={opens ? onKeyDown : undefined}
        >
          <thead>
            <tr>
              <th scope="col">{trans.__('Rank')}</th>
              <th scope="col">{trans.__('State')}</th>
              <th scope="col">{pods ? trans.__('Pod') : trans.__('Process')}</th>
              <th scope="col">{pods ? trans.__('Node') : trans.__('Host')}</th>
              <th scope="col">{trans.__('Restarts')}</th>
              <th scope="col">{trans.__('Exit')}</th>
            </tr>
          </thead>
          <tbody>
            {ranks.map((rank, index) => (
              <RankRow
                key={rank.rank}
                rank={rank}
                pods={pods}
                failed={rank.rank === failed}
                stop={opens ? index === here : null}
                trans={trans}
              />
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

interface RankRowProps {
  rank: Rank;
  pods: boolean;
  failed: boolean;
  /** Whether Tab goes to this row; null where rows open nothing. */
  stop: boolean | null;
  trans: Translator;
}

/** One rank. It renders again only when something that it shows is different. */
class RankRow extends Component<RankRowProps> {
  override shouldComponentUpdate(next: RankRowProps): boolean {
    const { rank, pods, failed, stop, trans } = this.props;
    const after = next.rank;
    return (
      next.pods !== pods ||
      next.failed !== failed ||
      next.stop !== stop ||
      next.trans !== trans ||
      after.state !== rank.state ||
      after.pid !== rank.pid ||
      after.pod !== rank.pod ||
      after.host !== rank.host ||
      after.restarts !== rank.restarts ||
      after.exit !== rank.exit
    );
  }

  override render(): ComponentChild {
    const { rank, pods, failed, stop, trans } = this.props;
    const pod = sanitize(rank.pod ?? '');
    const place = sanitize(rank.host ?? '');
    return (
      <tr
        data-rank={rank.rank}
        data-failed={failed}
        tabIndex={stop === null ? undefined : stop ? 0 : -1}
        title={stop === null ? undefined : trans.__('Open the log of rank %1', rank.rank)}
      >
        <th scope="row">{rank.rank}</th>
        <td>{rankStateLabel(rank.state, trans)}</td>
        {pods ? (
          <td class="jaxtrain-end" title={pod}>
            <bdi>{pod}</bdi>
          </td>
        ) : (
          <td>{rank.pid}</td>
        )}
        <td title={place}>{place}</td>
        <td>{rank.restarts}</td>
        <td data-bad={rank.exit !== null && rank.exit !== 0}>{exitText(rank.exit, trans)}</td>
      </tr>
    );
  }
}

/** What fetches a data set or a model before the ranks start. */
export function Initializers({ steps, host }: { steps: readonly Initializer[]; host: Host }) {
  const { trans } = host;
  if (steps.length === 0) {
    return null;
  }
  return (
    <Section name="initializers" title={trans.__('Initializers')} host={host}>
      <div class="jaxtrain-scroll">
        <table class="jaxtrain-ranks jaxtrain-steps">
          <thead>
            <tr>
              <th scope="col">{trans.__('Initializer')}</th>
              <th scope="col">{trans.__('State')}</th>
              <th scope="col">{trans.__('Pod')}</th>
              <th scope="col">{trans.__('Node')}</th>
              <th scope="col">{trans.__('Restarts')}</th>
              <th scope="col">{trans.__('Exit')}</th>
            </tr>
          </thead>
          <tbody>
            {steps.map(({ name, state, pod, host: node, restarts, exit }) => (
              <tr key={name} data-failed={state === 'Failed'}>
                <th scope="row" title={sanitize(name)}>
                  {sanitize(name)}
                </th>
                <td>{rankStateLabel(state, trans)}</td>
                <td class="jaxtrain-end" title={sanitize(pod ?? '')}>
                  <bdi>{sanitize(pod ?? '')}</bdi>
                </td>
                <td title={sanitize(node ?? '')}>{sanitize(node ?? '')}</td>
                <td>{restarts}</td>
                <td data-bad={exit !== null && exit !== 0}>{exitText(exit, trans)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}
