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
import type { Message } from '@lumino/messaging';
import { h } from 'preact';

import { loadItem, saveItem } from '../core/base/storage';
import { PickerStore } from '../core/picker/store';
import type { Values } from '../core/picker/types';
import { Picker } from '../core/picker/view';
import { LabCells, type Tracker } from './cells';
import { DOMAIN, INSERT_LINE, OPEN_JOB, SHOW_RUNTIMES } from './commands';
import { IConnection } from './connection';
import { LabHost } from './host';
import { runtimesIcon } from './icons';
import { LoadHint } from './loadhint';
import { onSettings } from './settings';
import { toFocus } from './shell';
import { ViewWidget } from './viewwidget';

const ID = 'jupyter-jax-trainer:runtimes';
const PANEL = 'jaxtrain-runtimes';
const RUN = 'notebook:run-cell';
const DRAFT = 'picker-draft';

/** The picker in the sidebar; it requests nothing while it is hidden. */
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
  { api, storage, jobs }: IConnection,
  tracker: Tracker,
  translator: ITranslator | null,
  labShell: ILabShell | null,
  restorer: ILayoutRestorer | null,
  palette: ICommandPalette | null,
  launcher: ILauncher | null,
  registry: ISettingRegistry | null
): void {
  const trans = (translator ?? nullTranslator).load(DOMAIN);
  const { commands } = app;
  const openJob = (key: string): void => void commands.execute(OPEN_JOB, { key });
  const host = new LabHost(api, trans, row => openJob(row.key), commands, { storage });
  const cells = new LabCells(tracker, () => void commands.execute(RUN, { activate: false }));
  const store = new PickerStore(api, cells, jobs);

  void storage.ready.then(() => persistDraft(store, host));
  void onSettings(registry, ID, ({ line }) => {
    store.line.draft.setDefaults(typeof line === 'string' ? line : '');
  });

  const panel = new PickerPanel(
    store,
    host,
    () => {
      store.dispose();
      cells.dispose();
    },
    storage.ready
  );
  panel.id = PANEL;
  panel.title.icon = runtimesIcon;
  panel.title.caption = trans.__('Runtimes for JAX Training');
  panel.node.setAttribute('role', 'region');
  panel.node.setAttribute('aria-label', trans.__('Runtimes for JAX Training'));
  app.shell.add(panel, 'left', { rank: 601, type: 'JAX Training' });
  restorer?.add(panel, PANEL);

  const above = (): Promise<unknown> => commands.execute('notebook:insert-cell-above');
  const hint = new LoadHint(tracker, trans, above);
  const show = (): void => {
    labShell?.expandLeft();
    toFocus(app.shell, panel);
  };
  commands.addCommand(SHOW_RUNTIMES, {
    label: args =>
      args['isLauncher'] === true
        ? trans.__('Training Runtimes')
        : trans.__('Show Training Runtimes'),
    caption: trans.__('Choose where %1 cells run, and their options', '%%jaxtrain'),
    icon: runtimesIcon,
    execute: show
  });
  commands.addCommand(INSERT_LINE, {
    label: args =>
      args['isCell'] === true
        ? trans.__('Make This Cell a Training Job')
        : trans.__('Insert a %1 Line into the Cell', '%%jaxtrain'),
    caption: trans.__('Make the active cell a training job'),
    isEnabled: args =>
      args['isCell'] === true || (cells.cell?.code === true && cells.cell.editable),
    execute: async args => {
      // The context menu belongs to the cell under the pointer, which may not be the active one.
      const node = args['isCell'] === true && app.contextMenuHitTest(isCodeCell);
      if (node) {
        cells.goTo(node);
      }
      if (await store.line.insert()) {
        hint.notify();
      } else {
        show(); // the picker shows why that is not possible
      }
    }
  });
  const category = trans.__('JAX Training');
  for (const command of [SHOW_RUNTIMES, INSERT_LINE]) {
    palette?.addItem({ command, category });
  }
  launcher?.add({ command: SHOW_RUNTIMES, args: { isLauncher: true }, category, rank: 2 });
}

function isCodeCell({ classList }: HTMLElement): boolean {
  return classList.contains('jp-CodeCell');
}

/** Store what was chosen and is in no cell yet, such as the place. */
function persistDraft({ line }: PickerStore, host: LabHost): void {
  const { draft } = line;
  const before = loadItem<Values>(host, DRAFT);
  if (Object.keys(before).length > 0) {
    draft.set(before);
  }
  let last = draft.chosen;
  line.subscribe(() => {
    if (draft.chosen !== last) {
      last = draft.chosen;
      saveItem(host, DRAFT, last);
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
