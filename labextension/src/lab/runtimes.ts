import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { LabIcon } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { h } from 'preact';

import { keep, kept } from '../core/base/storage';
import { PickerStore } from '../core/picker/store';
import type { Values } from '../core/picker/types';
import { Picker } from '../core/picker/view';
import { LabCells, type Tracker } from './cells';
import { IConnection } from './connection';
import { toFocus } from './shell';
import { LabHost } from './host';
import { LoadHint } from './loadhint';
import { DOMAIN, INSERT_LINE, OPEN_JOB, SHOW_RUNTIMES } from './commands';
import { onSettings } from './settings';
import { ViewWidget } from './viewwidget';

const ID = 'jupyter-jax-trainer:runtimes';
const PANEL = 'jaxtrain-runtimes';
const RUN = 'notebook:run-cell';
const DRAFT = 'picker-draft';

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

  constructor(store: PickerStore, host: LabHost, disposed: () => void, ready: Promise<unknown>) {
    super(() => h(Picker, { store, host }), disposed, ready);
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
  { api, memory }: IConnection,
  tracker: Tracker,
  translator: ITranslator | null,
  labShell: ILabShell | null,
  restorer: ILayoutRestorer | null,
  palette: ICommandPalette | null,
  launcher: ILauncher | null,
  registry: ISettingRegistry | null
): void {
  const words = (translator ?? nullTranslator).load(DOMAIN);
  const { commands } = app;
  const openJob = (key: string): void => void commands.execute(OPEN_JOB, { key });
  const host = new LabHost(api, words, row => openJob(row.key), commands, { memory });
  const cells = new LabCells(tracker, () => void commands.execute(RUN, { activate: false }));
  const store = new PickerStore(api, cells);

  void memory.ready.then(() => rememberDraft(store, host));
  void onSettings(registry, ID, ({ line }) => {
    store.line.draft.setUsual(typeof line === 'string' ? line : '');
  });

  const panel = new PickerPanel(
    store,
    host,
    () => {
      store.dispose();
      cells.dispose();
    },
    memory.ready
  );
  panel.id = PANEL;
  panel.title.icon = runtimesIcon;
  panel.title.caption = words.__('Runtimes for JAX Training');
  panel.node.setAttribute('role', 'region');
  panel.node.setAttribute('aria-label', words.__('Runtimes for JAX Training'));
  app.shell.add(panel, 'left', { rank: 601, type: 'JAX Training' });
  restorer?.add(panel, PANEL);

  const above = (): Promise<unknown> => commands.execute('notebook:insert-cell-above');
  const hint = new LoadHint(tracker, words, above);
  const show = (): void => {
    labShell?.expandLeft();
    toFocus(app.shell, panel);
  };
  commands.addCommand(SHOW_RUNTIMES, {
    label: args =>
      args['isLauncher'] === true
        ? words.__('Training Runtimes')
        : words.__('Show Training Runtimes'),
    caption: words.__('Show where cells with %1 can run, and their options', '%%jaxtrain'),
    icon: runtimesIcon,
    execute: show
  });
  commands.addCommand(INSERT_LINE, {
    label: args =>
      args['isCell'] === true
        ? words.__('Make This Cell a Training Job')
        : words.__('Insert a %1 Line into the Cell', '%%jaxtrain'),
    caption: words.__('Make the active cell a training job'),
    isEnabled: args =>
      args['isCell'] === true || (cells.cell?.code === true && cells.cell.editable),
    execute: async args => {
      // The menu is that of the cell under the mouse, which need not be the active one.
      const node = args['isCell'] === true && app.contextMenuHitTest(isCodeCell);
      if (node) {
        cells.goTo(node);
      }
      if (await store.line.insert()) {
        hint.tell();
      } else {
        show(); // it says why that is not possible
      }
    }
  });
  const category = words.__('JAX Training');
  for (const command of [SHOW_RUNTIMES, INSERT_LINE]) {
    palette?.addItem({ command, category });
  }
  launcher?.add({ command: SHOW_RUNTIMES, args: { isLauncher: true }, category, rank: 2 });
}

function isCodeCell({ classList }: HTMLElement): boolean {
  return classList.contains('jp-CodeCell');
}

/** Keep what was chosen and is in no cell yet, such as the place. */
function rememberDraft({ line }: PickerStore, host: LabHost): void {
  const { draft } = line;
  const before = kept<Values>(host, DRAFT);
  if (Object.keys(before).length > 0) {
    draft.set(before);
  }
  let last = draft.own;
  line.watch(() => {
    if (draft.own !== last) {
      last = draft.own;
      keep(host, DRAFT, last);
    }
  });
}

export const runtimes: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'Where cells with %%jaxtrain run, and their options, in the left side bar.',
  autoStart: true,
  requires: [IConnection, INotebookTracker],
  optional: [ITranslator, ILabShell, ILayoutRestorer, ICommandPalette, ILauncher, ISettingRegistry],
  activate
};
