import { useCallback, useState } from 'preact/hooks';

import { duration } from '../base/format';
import { useThrottled } from '../base/hooks';
import type { Host } from '../base/host';
import type { Course, CourseLine } from '../base/protocol';
import type { Translator } from '../base/translator';
import type { Range } from '../plots/lines';
import { columnOf, isBand } from '../plots/machine';
import { Plot } from './plot';
import { Section } from './section';
import type { JobStore } from './store';

const EVERY = 250; // milliseconds between drawings

/** What the ranks use: processor, memory, devices, network and disks; of many ranks a band. */
export function MachinePart({ store, host }: { store: JobStore; host: Host }) {
  const { trans } = host;
  useThrottled([store.machine], EVERY);
  return (
    <Section name="machine" title={trans.__('Machine')} host={host} open={false}>
      {store.machine.courses.length > 0 ? (
        <Plots store={store} host={host} />
      ) : (
        <p class="jaxtrain-quiet">{trans.__('The ranks have sent no samples yet.')}</p>
      )}
    </Section>
  );
}

function Plots({ store, host }: { store: JobStore; host: Host }) {
  const { trans } = host;
  const { courses, began, version } = store.machine;
  const [range, setRange] = useState<Range | null>(null);
  const xText = useCallback((x: number) => duration(x, trans), [trans]);
  return (
    <div class="jaxtrain-plots">
      {courses.map(course => (
        <Plot
          key={course.name}
          name={titleOf(course, trans)}
          parts={course.lines.map(line => ({
            job: store.key,
            rank: line.rank,
            label: labelOf(line, trans),
            column: columnOf(line),
            began
          }))}
          version={version}
          log={false}
          band={isBand(course)}
          range={range}
          onZoom={setRange}
          xText={xText}
          host={host}
        />
      ))}
    </div>
  );
}

function titleOf({ name, limit }: Course, trans: Translator): string {
  const most = limit === null ? null : Math.round(limit * 10) / 10;
  switch (name) {
    case 'memory':
      return most === null
        ? trans.__('Memory (GiB)')
        : trans.__('Memory (GiB, of %1 for each rank)', most);
    case 'cpu':
      return most === null ? trans.__('CPU (cores)') : trans.__('CPU (cores, of %1)', most);
    case 'device_memory':
      return most === null
        ? trans.__('Device memory (GiB)')
        : trans.__('Device memory (GiB, of %1)', most);
    case 'gpu':
      return trans.__('GPU (%)');
    case 'power':
      return trans.__('Power (W)');
    case 'received':
      return trans.__('Received (MB/s)');
    case 'sent':
      return trans.__('Sent (MB/s)');
    case 'read':
      return trans.__('Read from disk (MB/s)');
    case 'written':
      return trans.__('Written to disk (MB/s)');
  }
}

function labelOf({ role, rank }: CourseLine, trans: Translator): string {
  switch (role) {
    case 'least':
      return trans.__('min');
    case 'median':
      return trans.__('median');
    case 'most':
      return trans.__('max');
    case 'rank':
      return trans.__('rank %1', rank ?? 0);
  }
}
