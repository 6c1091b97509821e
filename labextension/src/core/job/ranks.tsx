import { Component, type ComponentChild } from 'preact';

import { formatBytes, formatNumber, sanitize } from '../base/format';
import { useThrottled } from '../base/hooks';
import type { Host } from '../base/host';
import type { Initializer, Rank, Row } from '../base/protocol';
import { rankStateLabel } from '../base/states';
import type { Translator } from '../base/translator';
import { pathOf } from '../output/sparkline';
import type { Machine } from '../plots/machine';
import { useTableRows } from './rows';
import { Section } from './section';
import { useMemory } from './sessionlook';

const EVERY = 1000; // milliseconds between drawings of what ranks use
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
  machine: Machine;
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
export function Ranks({ row, ranks, failed, machine, host }: RanksProps) {
  const { trans } = host;
  if (ranks.length === 0) {
    return null;
  }
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
      <RankTable row={row} ranks={ranks} failed={failed} machine={machine} host={host} />
    </Section>
  );
}

function RankTable({ row, ranks, failed, machine, host }: RanksProps) {
  const { trans } = host;
  useThrottled([machine], EVERY);
  const { sparks } = machine;
  const { cluster: pods } = row;
  const opens = host.openLog !== undefined;
  const memory = useMemory(row, host);
  const { table, current } = useTableRows(ranks.length, index =>
    host.openLog?.(row.key, ranks[index]?.rank)
  );
  return (
    <div class="jaxtrain-scroll" data-opens={opens}>
      <table
        class={memory ? 'jaxtrain-ranks jaxtrain-live' : 'jaxtrain-ranks'}
        data-used
        {...(opens && table)}
      >
        <thead>
          <tr>
            <th scope="col">{trans.__('Rank')}</th>
            <th scope="col">{trans.__('State')}</th>
            <th scope="col">{pods ? trans.__('Pod') : trans.__('Process')}</th>
            <th scope="col">{pods ? trans.__('Node') : trans.__('Host')}</th>
            <th scope="col">{trans.__('Restarts')}</th>
            <th scope="col">{memory ? trans.__('Memory') : trans.__('Exit')}</th>
            <th scope="col" title={trans.__('Memory over time')}>
              {memory ? trans.__('Trend') : trans.__('Memory')}
            </th>
          </tr>
        </thead>
        <tbody>
          {ranks.map((rank, index) => (
            <RankRow
              key={rank.rank}
              rank={rank}
              pods={pods}
              failed={rank.rank === failed}
              memory={memory && (memory[rank.rank] ?? null)}
              spark={sparks[rank.rank] ?? []}
              stop={opens ? index === current : null}
              trans={trans}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface RankRowProps {
  rank: Rank;
  pods: boolean;
  failed: boolean;
  /** Bytes, null if unknown; false if the job shows exit codes instead. */
  memory: number | null | false;
  /** Its memory over time, in GiB; empty if unknown. */
  spark: readonly number[];
  /** Whether Tab goes to this row; null where rows open nothing. */
  stop: boolean | null;
  trans: Translator;
}

/** One rank. It renders again only when something that it shows is different. */
class RankRow extends Component<RankRowProps> {
  override shouldComponentUpdate(next: RankRowProps): boolean {
    const { rank, pods, failed, memory, spark, stop, trans } = this.props;
    const after = next.rank;
    return (
      next.pods !== pods ||
      next.failed !== failed ||
      next.memory !== memory ||
      next.spark.join() !== spark.join() ||
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
    const { rank, pods, failed, memory, spark, stop, trans } = this.props;
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
        {memory === false ? (
          <td data-bad={rank.exit !== null && rank.exit !== 0}>{exitText(rank.exit, trans)}</td>
        ) : (
          <td>{memory === null ? '' : formatBytes(memory)}</td>
        )}
        <MemoryCell spark={spark} trans={trans} />
      </tr>
    );
  }
}

/** A sparkline of a rank's memory over time. */
function MemoryCell({ spark, trans }: { spark: readonly number[]; trans: Translator }) {
  const last = spark.at(-1);
  if (last === undefined) {
    return (
      <td>
        <svg class="jaxtrain-rank-spark" aria-hidden="true" />
      </td>
    );
  }
  const most = Math.max(...spark);
  const said = trans.__('%1 GiB, at most %2 GiB', formatNumber(last), formatNumber(most));
  return (
    <td title={said}>
      <svg class="jaxtrain-rank-spark" role="img" aria-label={said} viewBox="0 0 120 22">
        <path d={pathOf({ xs: spark.map((_, index) => index), ys: spark }, 0, most)} />
      </svg>
    </td>
  );
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
