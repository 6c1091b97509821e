import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

import { duration, formatNumber, sanitize } from '../base/format';
import { useThrottled } from '../base/hooks';
import type { Host } from '../base/host';
import type { Range } from '../plots/lines';
import { Choose } from './choose';
import { Compare } from './compare';
import { Plot } from './plot';
import { keepLook, loadPlotSettings, MOST_COMPARED, type PlotSettings } from './plotsettings';
import { Section } from './section';
import type { JobStore } from './store';

const EVERY = 250; // milliseconds between drawings

/** All metrics of a job, live, each as a plot, with those of other jobs over them. */
export function MetricsPart({ store, host }: { store: JobStore; host: Host }) {
  const { trans } = host;
  const [settings, setSettings] = useState(() => loadPlotSettings(host, store.key));
  const change = (part: Partial<PlotSettings>) => {
    const next = { ...settings, ...part };
    setSettings(next);
    keepLook(host, store.key, next, part);
  };
  const [choosing, setChoosing] = useState(false);
  const [picking, setPicking] = useState(false);
  const [others, setOthers] = useState<readonly JobStore[]>(() =>
    settings.others.map(key => store.openOther(key))
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
        ? [...others, store.openOther(key)]
        : others;
    setOthers(next);
    change({ others: next.map(other => other.key) });
  };
  const tools = (
    <Tools
      settings={settings}
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
    <Section name="metrics" title={trans.__('Metrics')} host={host} tools={tools}>
      {choosing && (
        <Choose metrics={store.metrics} settings={settings} change={change} trans={trans} />
      )}
      {picking && (
        <Compare
          store={store}
          chosen={others.map(({ key }) => key)}
          onToggle={toggle}
          host={host}
        />
      )}
      {others.length > 0 && (
        <div class="jaxtrain-chips" role="group" aria-label={trans.__('Compared with')}>
          {others.map(({ key, error }) => (
            <button
              key={key}
              type="button"
              class="jaxtrain-chip"
              title={error ? sanitize(error.message) : trans.__('Remove %1', sanitize(key))}
              aria-label={trans.__('Remove %1', sanitize(key))}
              onClick={() => toggle(key)}
            >
              {sanitize(key)} <span aria-hidden="true">×</span>
            </button>
          ))}
        </div>
      )}
      <Plots store={store} others={others} settings={settings} change={change} host={host} />
    </Section>
  );
}

interface ToolsProps {
  settings: PlotSettings;
  change: (part: Partial<PlotSettings>) => void;
  choosing: boolean;
  setChoosing: (choosing: boolean) => void;
  picking: boolean;
  setPicking: (picking: boolean) => void;
  store: JobStore;
  host: Host;
}

function Tools(props: ToolsProps) {
  const { settings, change, choosing, setChoosing, picking, setPicking, store, host } = props;
  const { trans } = host;
  useThrottled([store.metrics], 1000);
  const { metrics } = store;
  const axes = [
    ['step', trans.__('Step')],
    ['time', trans.__('Time')]
  ] as const;
  return (
    <>
      <span class="jaxtrain-choice" role="group" aria-label={trans.__('Horizontal axis')}>
        {axes.map(([axis, word]) => (
          <button
            key={axis}
            type="button"
            class="jaxtrain-small"
            aria-pressed={settings.axis === axis}
            onClick={() => change({ axis, range: null })}
          >
            {word}
          </button>
        ))}
      </span>
      <button
        type="button"
        class="jaxtrain-small"
        aria-pressed={settings.log}
        title={trans.__('Logarithmic scale')}
        onClick={() => change({ log: !settings.log })}
      >
        {trans.__('Log')}
      </button>
      <button
        type="button"
        class="jaxtrain-small"
        aria-expanded={choosing}
        disabled={metrics.ranks().length < 2 && metrics.names.length < 2}
        title={trans.__('Choose the ranks and metrics to plot')}
        onClick={() => setChoosing(!choosing)}
      >
        {trans.__('Choose')}
      </button>
      <button
        type="button"
        class="jaxtrain-small"
        aria-expanded={picking}
        onClick={() => setPicking(!picking)}
      >
        {trans.__('Compare')}
      </button>
      <button
        type="button"
        class="jaxtrain-small"
        disabled={!settings.range}
        title={trans.__('Or double-click a plot')}
        onClick={() => change({ range: null })}
      >
        {trans.__('Show all')}
      </button>
    </>
  );
}

interface PlotsProps {
  store: JobStore;
  others: readonly JobStore[];
  settings: PlotSettings;
  change: (part: Partial<PlotSettings>) => void;
  host: Host;
}

/** Return the time origin of a job's plots: its start or its first report, whichever is earlier. */
function beganOf({ detail, metrics }: JobStore): number {
  const ran = detail?.state?.history.find(({ state }) => state === 'Running')?.time;
  const reported = metrics.began;
  return Math.min(ran ?? Infinity, reported ?? ran ?? 0);
}

function Plots({ store, others, settings, change, host }: PlotsProps) {
  const { trans } = host;
  const all = [store, ...others];
  // The details of the other jobs say when they began.
  useThrottled([...all.map(({ metrics }) => metrics), ...others], EVERY);
  const { axis, log, ranks, hidden, range } = settings;
  const xText = useCallback(
    (x: number) => (axis === 'time' ? duration(x, trans) : formatNumber(x)),
    [axis, trans]
  );
  const labelOf = ({ key }: JobStore, rank: number | null) =>
    rank === null
      ? key
      : others.length > 0
        ? trans.__('%1 rank %2', key, rank)
        : trans.__('rank %1', rank);
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
        {trans.__('No metrics yet. Call report(step=…, loss=…) in the code to plot them here.')}
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
