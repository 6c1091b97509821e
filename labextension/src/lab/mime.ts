import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IRenderMimeRegistry, type IRenderMime } from '@jupyterlab/rendermime';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import { Panel } from '@lumino/widgets';
import { h } from 'preact';

import { ownKeys } from '../core/base/outputkeys';
import { Glances, JobOutput, MIME, readSaved } from '../core/output/store';
import type { GlanceHost } from '../core/output/card';
import { Output } from '../core/output/view';
import { IConnection } from './connection';
import { LabHost } from './host';
import { DOMAIN, OPEN_JOB } from './commands';
import { ViewWidget } from './viewwidget';

const RANK = -100; // before the widget (-10) and the static card of the same output
const NEAR = '300px'; // how far outside of what can be seen an output is made ready

type MakeHost = (output: JobOutput) => GlanceHost;
type MakeCard = () => IRenderMime.IRenderer;

/**
 * The output of a cell that is a job.
 *
 * A page may hold many of them, so only what is near the window asks the server. Until more
 * is known, JupyterLab's own renderer draws the static card, as HTML that nobody trusts.
 */
export class RenderedJob extends Panel implements IRenderMime.IRenderer {
  #output: JobOutput;
  #makeCard: MakeCard;
  #card: IRenderMime.IRenderer | null = null;
  #model: IRenderMime.IMimeModel | null = null;
  #observer: IntersectionObserver | null = null;
  #unwatch: () => void;

  constructor(output: JobOutput, host: MakeHost, makeCard: MakeCard) {
    super();
    this.#output = output;
    this.#makeCard = makeCard;
    this.addClass('jaxtrain-output');
    ownKeys(this.node);
    this.node.dataset['mimeType'] = MIME; // as JupyterLab's own renderers say it
    this.addWidget(new ViewWidget(() => h(Output, { output, host: () => host(output) })));
    this.#unwatch = output.watch(() => void this.#show());
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this.#model = model;
    this.#output.set(readSaved(model.data[MIME]));
    await this.#show(true);
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.#unwatch();
      this.#output.look(false);
      super.dispose();
    }
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.#observer = new IntersectionObserver(
      entries => this.#output.look(entries.at(-1)?.isIntersecting ?? false),
      // Elsewhere than in a notebook the window is what scrolls.
      { root: this.node.closest('.jp-WindowedPanel-outer'), rootMargin: NEAR }
    );
    // A notebook does not lay out what is in a cell out of sight, so that is nowhere near.
    this.#observer.observe(this.node.closest('.jp-Cell') ?? this.node);
  }

  protected override onBeforeDetach(message: Message): void {
    this.#observer?.disconnect();
    this.#observer = null;
    this.#output.look(false);
    super.onBeforeDetach(message);
  }

  /** Show the static card, or take it away; `anew` when the notebook says something else. */
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
  const words = (translator ?? nullTranslator).load(DOMAIN);
  const glances = new Glances(live);
  const lab = new LabHost(
    api,
    words,
    ({ key }) => void app.commands.execute(OPEN_JOB, { key, split: true })
  );
  const hostOf = (output: JobOutput): GlanceHost => {
    const { shown } = output;
    const row = shown?.glance.row;
    // A job that no server knows cannot be opened.
    const known = shown?.from === 'server' || shown?.from === 'before';
    const opens = known && app.commands.hasCommand(OPEN_JOB);
    return {
      words,
      act: action => row && lab.act(row, action),
      copy: text => lab.copy(text),
      ...(opens && row && { open: () => lab.open(row) })
    };
  };
  rendermime.addFactory(
    {
      safe: true,
      mimeTypes: [MIME],
      createRenderer: options =>
        new RenderedJob(new JobOutput(glances), hostOf, () => {
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
