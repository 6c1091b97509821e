import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

import { duration, plain } from '../base/format';
import type { Host } from '../base/host';
import type { Range } from '../plots/lines';
import { number } from '../base/number';
import type { JobStore } from './stores';
import { Choose } from './choose';
import { Compare } from './compare';
import { keepLook, type Look, MOST_COMPARED, readLook } from './plotsettings';
import { Plot } from './plot';
import { Section } from './section';
import { useThrottled } from '../base/throttled';

const EVERY = 250; // milliseconds between drawings

/** All metrics of a job, live, each as a plot, with those of other jobs over them. */
export function MetricsPart({ store, host }: { store: JobStore; host: Host }) {
  const { words } = host;
  const [look, setLook] = useState(() => readLook(host, store.key));
  const change = (part: Partial<Look>) => {
    const next = { ...look, ...part };
    setLook(next);
    keepLook(host, store.key, next, part);
  };
  const [choosing, setChoosing] = useState(false);
  const [picking, setPicking] = useState(false);
  const [others, setOthers] = useState<readonly JobStore[]>(() =>
    look.others.map(key => store.beside(key))
  );
  const opened = useRef(others);
  opened.current = others;
  useEffect(() => () => opened.current.forEach(other => other.dispose()), []);
  const toggle = (key: string) => {
    const found = others.find(other => other.key === key);
    found?.dispose();
    const next = found
      ? others.filter(other => other !== found)
      : others.length < MOST_COMPARED
        ? [...others, store.beside(key)]
        : others;
    setOthers(next);
    change({ others: next.map(other => other.key) });
  };
  const tools = (
    <Tools
      look={look}
      change={change}
      choosing={choosing}
      setChoosing={setChoosing}
      picking={picking}
      setPicking={setPicking}
      store={store}
      host={host}
    />
  );
  return (
    <Section name="metrics" title={words.__('Metrics')} host={host} tools={tools}>
      {choosing && <Choose metrics={store.metrics} look={look} change={change} words={words} />}
      {picking && (
        <Compare
          store={store}
          chosen={others.map(({ key }) => key)}
          onToggle={toggle}
          host={host}
        />
      )}
      {others.length > 0 && (
        <div class="jaxtrain-chips" role="group" aria-label={words.__('Compared with')}>
          {others.map(({ key, error }) => (
            <button
              key={key}
              type="button"
              class="jaxtrain-chip"
              title={error ? plain(error.message) : words.__('Leave out %1', plain(key))}
              aria-label={words.__('Leave out %1', plain(key))}
              onClick={() => toggle(key)}
            >
              {plain(key)} <span aria-hidden="true">×</span>
            </button>
          ))}
        </div>
      )}
      <Plots store={store} others={others} look={look} change={change} host={host} />
    </Section>
  );
}

interface ToolsProps {
  look: Look;
  change: (part: Partial<Look>) => void;
  choosing: boolean;
  setChoosing: (choosing: boolean) => void;
  picking: boolean;
  setPicking: (picking: boolean) => void;
  store: JobStore;
  host: Host;
}

function Tools(props: ToolsProps) {
  const { look, change, choosing, setChoosing, picking, setPicking, store, host } = props;
  const { words } = host;
  useThrottled([store.metrics], 1000);
  const { metrics } = store;
  const axes = [
    ['step', words.__('Step')],
    ['time', words.__('Time')]
  ] as const;
  return (
    <>
      <span class="jaxtrain-choice" role="group" aria-label={words.__('Horizontal axis')}>
        {axes.map(([axis, word]) => (
          <button
            key={axis}
            type="button"
            class="jaxtrain-small"
            aria-pressed={look.axis === axis}
            onClick={() => change({ axis, range: null })}
          >
            {word}
          </button>
        ))}
      </span>
      <button
        type="button"
        class="jaxtrain-small"
        aria-pressed={look.log}
        title={words.__('Logarithmic scale')}
        onClick={() => change({ log: !look.log })}
      >
        {words.__('Log')}
      </button>
      <button
        type="button"
        class="jaxtrain-small"
        aria-expanded={choosing}
        disabled={metrics.ranks().length < 2 && metrics.names.length < 2}
        title={words.__('Which ranks and metrics to draw')}
        onClick={() => setChoosing(!choosing)}
      >
        {words.__('Choose')}
      </button>
      <button
        type="button"
        class="jaxtrain-small"
        aria-expanded={picking}
        onClick={() => setPicking(!picking)}
      >
        {words.__('Compare')}
      </button>
      <button
        type="button"
        class="jaxtrain-small"
        disabled={!look.range}
        title={words.__('A double click does it, too')}
        onClick={() => change({ range: null })}
      >
        {words.__('Show all')}
      </button>
    </>
  );
}

interface PlotsProps {
  store: JobStore;
  others: readonly JobStore[];
  look: Look;
  change: (part: Partial<Look>) => void;
  host: Host;
}

/** Give when the time of a job's plots begins: when it ran, else with its first report. */
function beganOf({ detail, metrics }: JobStore): number {
  const ran = detail?.state?.history.find(({ state }) => state === 'Running')?.time;
  const reported = metrics.began;
  return Math.min(ran ?? Infinity, reported ?? ran ?? 0);
}

function Plots({ store, others, look, change, host }: PlotsProps) {
  const { words } = host;
  const all = [store, ...others];
  // The details of the other jobs say when they began.
  useThrottled([...all.map(({ metrics }) => metrics), ...others], EVERY);
  const { axis, log, ranks, hidden, range } = look;
  const xText = useCallback(
    (x: number) => (axis === 'time' ? duration(x, words) : number(x)),
    [axis, words]
  );
  const labelOf = ({ key }: JobStore, rank: number | null) =>
    rank === null
      ? key
      : others.length > 0
        ? words.__('%1 rank %2', key, rank)
        : words.__('rank %1', rank);
  const names = [...new Set(all.flatMap(({ metrics }) => metrics.names))];
  const shown = names.filter(name => !hidden.includes(name));
  const drawn = all.flatMap(each => {
    const chosen = each === store && ranks.length > 0 ? ranks : [null];
    return chosen.map(rank => ({ each, rank, label: labelOf(each, rank) }));
  });
  const onZoom = (part: Range | null) => change({ range: part });
  if (names.length === 0) {
    return (
      <p class="jaxtrain-quiet jaxtrain-no-plot">
        {words.__('Nothing reported yet: report(step=…, loss=…) in the code draws a plot here.')}
      </p>
    );
  }
  return (
    <div class="jaxtrain-plots">
      {shown.map(name => (
        <Plot
          key={name}
          name={name}
          parts={drawn.map(({ each, rank, label }) => ({
            job: each.key,
            rank,
            label,
            column: each.metrics.column(name, rank),
            began: axis === 'time' ? beganOf(each) : null
          }))}
          version={all.reduce((sum, { metrics }) => sum + metrics.version, 0)}
          log={log}
          range={range}
          onZoom={onZoom}
          xText={xText}
          host={host}
        />
      ))}
    </div>
  );
}
