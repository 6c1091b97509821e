import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { LabIcon } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { h } from 'preact';

import { PickerStore } from '../core/picker/store';
import { Picker } from '../core/picker/views/picker';
import { LabCells, type Tracker } from './cells';
import { IConnection } from './connection';
import { LabHost } from './host';
import { ViewWidget } from './widget';

const PANEL = 'jaxtrain-runtimes';
const SHOW = 'jaxtrain:show-runtimes';
const INSERT = 'jaxtrain:insert-line';
const OPEN_JOB = 'jaxtrain:open-job';
const RUN = 'notebook:run-cell';

/** Three things to set: the mark of the panel. */
const runtimesIcon = new LabIcon({
  name: 'jupyter-jax-trainer:runtimes',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" fill="#616161">
    <path d="M3 5.2h18v1.6H3zM3 11.2h18v1.6H3zM3 17.2h18v1.6H3z"/>
    <circle cx="8" cy="6" r="2.8"/><circle cx="16" cy="12" r="2.8"/><circle cx="10" cy="18" r="2.8"/>
  </g>
</svg>`
});

/** The picker in a side bar; it asks for nothing while it is hidden. */
class PickerPanel extends ViewWidget {
  #show: (shown: boolean) => void;

  constructor(store: PickerStore, host: LabHost, disposed: () => void) {
    super(() => h(Picker, { store, host }), disposed);
    this.#show = shown => store.show(shown);
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.#show(this.isVisible);
  }

  protected override onAfterShow(): void {
    this.#show(true);
  }

  protected override onAfterHide(): void {
    this.#show(false);
  }

  protected override onBeforeDetach(message: Message): void {
    this.#show(false);
    super.onBeforeDetach(message);
  }
}

function activate(
  app: JupyterFrontEnd,
  { api }: IConnection,
  tracker: Tracker,
  translator: ITranslator | null,
  labShell: ILabShell | null,
  restorer: ILayoutRestorer | null,
  palette: ICommandPalette | null
): void {
  const words = (translator ?? nullTranslator).load('jupyter_jax_trainer');
  const { commands } = app;
  const host = new LabHost(api, words, row => void commands.execute(OPEN_JOB, { key: row.key }));
  const cells = new LabCells(tracker, () => void commands.execute(RUN, { activate: false }));
  const store = new PickerStore(api, cells);

  const panel = new PickerPanel(store, host, () => {
    store.dispose();
    cells.dispose();
  });
  panel.id = PANEL;
  panel.title.icon = runtimesIcon;
  panel.title.caption = words.__('Runtimes for JAX Training');
  panel.node.setAttribute('role', 'region');
  panel.node.setAttribute('aria-label', words.__('Runtimes for JAX Training'));
  app.shell.add(panel, 'left', { rank: 601, type: 'JAX Training' });
  restorer?.add(panel, PANEL);

  const show = (): void => {
    labShell?.expandLeft();
    app.shell.activateById(PANEL);
  };
  commands.addCommand(SHOW, {
    label: words.__('Show Training Runtimes'),
    caption: words.__('Show where cells with %1 can run, and their options', '%%jaxtrain'),
    icon: runtimesIcon,
    execute: show
  });
  commands.addCommand(INSERT, {
    label: words.__('Insert a %1 Line into the Cell', '%%jaxtrain'),
    caption: words.__('Make the active cell a training job'),
    execute: async () => {
      // Where that is not possible the panel says why.
      if (!(await store.line.insert())) {
        show();
      }
    }
  });
  for (const command of [SHOW, INSERT]) {
    palette?.addItem({ command, category: words.__('JAX Training') });
  }
}

export const runtimes: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-jax-trainer:runtimes',
  description: 'Where cells with %%jaxtrain run, and their options, in the left side bar.',
  autoStart: true,
  requires: [IConnection, INotebookTracker],
  optional: [ITranslator, ILabShell, ILayoutRestorer, ICommandPalette],
  activate
};
