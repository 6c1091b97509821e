import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IRenderMimeRegistry, type IRenderMime } from '@jupyterlab/rendermime';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import { Panel } from '@lumino/widgets';
import { h } from 'preact';

import { captureKeys } from '../core/base/keyboard';
import type { Row } from '../core/base/protocol';
import type { CardHost } from '../core/output/card';
import { JobOutput, MIME, readSaved, SummaryStores } from '../core/output/store';
import { Output } from '../core/output/view';
import { DOMAIN, OPEN_JOB } from './commands';
import { IConnection } from './connection';
import { LabHost } from './host';
import { ViewWidget } from './viewwidget';

const RANK = -100; // before the widget (-10) and the static card of the same output
const NEAR = '300px'; // how far outside the visible area an output is made ready
const SCROLLER = '.jp-WindowedPanel-outer'; // the part of a notebook that scrolls

/** The outputs in the page. */
const rendered = new Set<RenderedJob>();

/** Return whether a cell that waits for a job is in view, so that its end needs no notification. */
export function isWaitInView(row: Row): boolean {
  return [...rendered].some(output => output.showsWait(row));
}

type MakeHost = (output: JobOutput) => CardHost;
type MakeCard = () => IRenderMime.IRenderer;

/**
 * The output of a cell that is a job.
 *
 * A page may have many of them, so only outputs near the visible area subscribe. Until a summary
 * is known, JupyterLab's own renderer shows the static card, as untrusted HTML.
 */
export class RenderedJob extends Panel implements IRenderMime.IRenderer {
  #output: JobOutput;
  #makeCard: MakeCard;
  #card: IRenderMime.IRenderer | null = null;
  #model: IRenderMime.IMimeModel | null = null;
  #observer: IntersectionObserver | null = null;
  #unsubscribe: () => void;

  constructor(output: JobOutput, host: MakeHost, makeCard: MakeCard) {
    super();
    this.#output = output;
    this.#makeCard = makeCard;
    this.addClass('jaxtrain-output');
    captureKeys(this.node);
    this.node.dataset['mimeType'] = MIME; // as JupyterLab's own renderers do
    this.addWidget(new ViewWidget(() => h(Output, { output, host: () => host(output) })));
    this.#unsubscribe = output.subscribe(() => void this.#show());
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this.#model = model;
    this.#output.set(readSaved(model.data[MIME]));
    await this.#show(true);
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.#unsubscribe();
      this.#output.setVisible(false);
      super.dispose();
    }
  }

  /** Return whether the output belongs to a cell that waits for a job, and can be seen. */
  showsWait(row: Row): boolean {
    return this.#output.isWaitingFor(row) && this.isVisible && this.#isInView();
  }

  /** Return whether some of the cell's output is in view; `setVisible` is about what is near. */
  #isInView(): boolean {
    const area = this.node.closest('.jp-OutputArea') ?? this.node;
    const { top, bottom } = area.getBoundingClientRect();
    const scroller = this.node.closest(SCROLLER)?.getBoundingClientRect();
    const from = Math.max(0, scroller?.top ?? 0);
    const to = Math.min(window.innerHeight, scroller?.bottom ?? Infinity);
    return bottom > from && top < to;
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    rendered.add(this);
    this.#observer = new IntersectionObserver(
      entries => this.#output.setVisible(entries.at(-1)?.isIntersecting ?? false),
      // Outside of notebooks the window scrolls.
      { root: this.node.closest(SCROLLER), rootMargin: NEAR }
    );
    // The cell, since notebooks do not lay out the content of cells out of view.
    this.#observer.observe(this.node.closest('.jp-Cell') ?? this.node);
  }

  protected override onBeforeDetach(message: Message): void {
    rendered.delete(this);
    this.#observer?.disconnect();
    this.#observer = null;
    this.#output.setVisible(false);
    super.onBeforeDetach(message);
  }

  /** Show or remove the static card; `anew` after a change of the notebook's data. */
  async #show(anew = false): Promise<void> {
    const wanted = this.#output.shown === null;
    if (!wanted) {
      this.#card?.dispose();
      this.#card = null;
      return;
    }
    if (this.#card && !anew) {
      return;
    }
    if (!this.#card) {
      this.#card = this.#makeCard();
      this.addWidget(this.#card);
    }
    const { data, metadata } = this.#model ?? {};
    const html = data?.['text/html'] ?? '';
    await this.#card.renderModel({
      trusted: false,
      data: { 'text/html': html },
      metadata: metadata ?? {},
      setData: options => this.#model?.setData(options)
    });
  }
}

function activate(
  app: JupyterFrontEnd,
  rendermime: IRenderMimeRegistry,
  { api, live }: IConnection,
  translator: ITranslator | null
): void {
  const trans = (translator ?? nullTranslator).load(DOMAIN);
  const summaries = new SummaryStores(live);
  const lab = new LabHost(
    api,
    trans,
    ({ key }) => void app.commands.execute(OPEN_JOB, { key, split: true })
  );
  const hostOf = (output: JobOutput): CardHost => {
    const { shown } = output;
    const row = shown?.summary.row;
    // A job that no server knows cannot be opened.
    const known = shown?.origin === 'server' || shown?.origin === 'disconnected';
    const opens = known && app.commands.hasCommand(OPEN_JOB);
    return {
      trans,
      act: action => row && lab.act(row, action),
      copy: text => lab.copy(text),
      prolong: () => {
        if (row?.cell_of) {
          const { key, uid } = row.cell_of;
          lab.act({ ...row, key, uid, name: key, cell_of: null }, 'prolong');
        }
      },
      ...(opens && { open: lab.open })
    };
  };
  rendermime.addFactory(
    {
      safe: true,
      mimeTypes: [MIME],
      createRenderer: options =>
        new RenderedJob(new JobOutput(summaries), hostOf, () => {
          const html = rendermime.getFactory('text/html');
          if (!html) {
            throw new Error('There is no renderer of HTML.');
          }
          return html.createRenderer({ ...options, mimeType: 'text/html' });
        })
    },
    RANK
  );
}

export const mime: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-jax-trainer:mime',
  description: 'Training jobs in the outputs of cells.',
  autoStart: true,
  requires: [IRenderMimeRegistry, IConnection],
  optional: [ITranslator],
  activate
};
