/** Picker, jobs, job view and log viewer as a widget, over the comm. */

import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';

import { Api } from '../core/base/api';
import { useObservable } from '../core/base/hooks';
import { Live } from '../core/base/live';
import { JobStore } from '../core/job/store';
import { Job } from '../core/job/view';
import { JobsStore } from '../core/jobs/store';
import { Jobs } from '../core/jobs/view';
import { Reader } from '../core/log/reader';
import { LogStore } from '../core/log/store';
import { LogView } from '../core/log/view';
import { PickerStore } from '../core/picker/store';
import { Picker } from '../core/picker/view';
import { Comm } from './comm';
import { Menu } from './menu';
import type { Model, RenderProps } from './model';
import { Ask, Wrong } from './notes';
import { draw } from './page';
import { nextCell, PanelStore } from './panelstore';

/** The parts of a panel, as long as its view exists. */
class Parts {
  readonly comm: Comm;
  readonly live: Live;
  readonly api: Api;
  readonly jobs: JobsStore;
  readonly picker: PickerStore;
  readonly panel: PanelStore;

  constructor(model: Model) {
    this.comm = new Comm(model);
    this.api = new Api(this.comm.fetch);
    this.live = new Live({ url: () => 'comm', connect: () => this.comm.connect() });
    this.jobs = new JobsStore(this.live);
    this.picker = new PickerStore(this.api, nextCell(this.api), this.jobs);
    this.panel = new PanelStore(this.api, this.live);
    this.picker.show(true);
  }

  dispose(): void {
    this.picker.dispose();
    this.jobs.dispose();
    this.live.dispose();
    this.comm.dispose();
  }
}

function Panel({ parts }: { parts: Parts }) {
  const { panel, comm, jobs, picker } = parts;
  useObservable(panel);
  useObservable(comm);
  const { trans, place, asked, error, popup } = panel;
  const top = useRef<HTMLDivElement>(null);
  const first = useRef(true);
  useLayoutEffect(() => {
    if (!first.current) {
      top.current?.focus(); // the focused element was removed
    }
    first.current = false;
  }, [place]);
  return (
    <div class="jaxtrain-panel" ref={top} tabIndex={-1} data-place={place.kind}>
      {comm.silent && (
        <div class="jaxtrain-stale" role="status">
          {trans.__(
            'The kernel is not responding: it is busy with a cell, or has stopped. This page continues automatically.'
          )}
        </div>
      )}
      {asked && <Ask confirmation={asked.confirmation} onAnswer={yes => panel.answer(yes)} />}
      {error && <Wrong error={error} trans={trans} onClose={() => panel.closeTrouble()} />}
      {place.kind !== 'home' && (
        <nav>
          <button type="button" class="jaxtrain-button" onClick={() => panel.back()}>
            {trans.__('← Back')}
          </button>
        </nav>
      )}
      {place.kind === 'home' && (
        <div class="jaxtrain-panel-home">
          <Picker store={picker} host={panel} />
          <Jobs store={jobs} host={panel} />
        </div>
      )}
      {place.kind === 'job' && <JobPart key={place.key} parts={parts} job={place.key} />}
      {place.kind === 'log' && (
        <LogPart key={place.key} parts={parts} job={place.key} rank={place.rank} />
      )}
      {popup && <Menu {...popup} onClose={() => panel.closeMenu()} />}
    </div>
  );
}

function JobPart({ parts, job }: { parts: Parts; job: string }) {
  const store = useMemo(() => new JobStore(parts.live, job), [parts, job]);
  useEffect(() => () => store.dispose(), [store]);
  return <Job store={store} host={parts.panel} />;
}

function LogPart({ parts, job, rank }: { parts: Parts; job: string; rank: number | null }) {
  const reader = useMemo(
    () => new Reader(new LogStore(parts.live, job), parts.panel.trans),
    [parts, job]
  );
  useEffect(() => {
    const { store } = reader;
    if (rank !== null) {
      reader.show({ sources: [rank] });
    }
    return () => {
      reader.dispose();
      store.dispose();
    };
  }, [rank, reader]);
  return <LogView reader={reader} host={parts.panel} />;
}

function render({ model, el }: RenderProps): () => void {
  const parts = new Parts(model);
  const erase = draw(<Panel parts={parts} />, el, 'jaxtrain-panel-widget');
  return () => {
    erase();
    parts.dispose();
  };
}

export default { render };
