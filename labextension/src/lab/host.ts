import { Clipboard, Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { ServerConnection } from '@jupyterlab/services';
import { CommandRegistry } from '@lumino/commands';
import { Menu, Widget } from '@lumino/widgets';

import { confirmationFor } from '../core/base/actions';
import type { Api } from '../core/base/api';
import { errorText, toServerError } from '../core/base/errors';
import { sanitize } from '../core/base/format';
import type { Host, MenuItem } from '../core/base/host';
import type { Action, Row, Source } from '../core/base/protocol';
import type { Translator } from '../core/base/translator';
import { logUrl, traceUrl } from './connection';
import { ViewStorage } from './storage';

/** Optional parts of a host. */
interface Own {
  storage?: ViewStorage;
  settings?: ServerConnection.ISettings;
}

/** The part of an open notebook that is used. */
interface Notebook {
  readonly context: { readonly ready: Promise<void> };
  readonly content: {
    readonly widgets: readonly { readonly model: { readonly id: string } }[];
    activeCellIndex: number;
  };
  setFragment(fragment: string): void;
}

/** The host of views in JupyterLab. */
export class LabHost implements Host {
  readonly trans: Translator;
  readonly open: Host['open'];
  readonly openNotebook?: (path: string, cell: string | null) => void;
  /** Set once a plugin can open logs. */
  openLog?: (key: string, rank?: number) => void;
  /** Set by the plugin that has the tabs. */
  openXprof?: (key: string, profile: string) => void;
  #api: Api;
  #storage: ViewStorage;
  #settings: ServerConnection.ISettings;

  constructor(
    api: Api,
    trans: Translator,
    open: Host['open'],
    commands?: CommandRegistry,
    { storage, settings }: Own = {}
  ) {
    this.#api = api;
    this.#storage = storage ?? new ViewStorage(null);
    this.#settings = settings ?? ServerConnection.makeSettings();
    this.trans = trans;
    this.open = open;
    if (commands) {
      this.openNotebook = (path, cell) => void this.#openNotebook(commands, path, cell);
    }
  }

  act(row: Row, action: Action): void {
    void this.#act(row, action);
  }

  get<T>(path: string): Promise<T> {
    return this.#api.get<T>(path);
  }

  setItem(name: string, text: string): void {
    this.#storage.setItem(name, text);
  }

  getItem(name: string): string | null {
    return this.#storage.getItem(name);
  }

  save(key: string, source: Source | null): void {
    this.#download(logUrl(this.#settings, key, source));
  }

  saveTrace(key: string, profile: string, rank: number): void {
    this.#download(traceUrl(this.#settings, key, profile, rank));
  }

  #download(address: string): void {
    const link = document.createElement('a');
    link.href = address;
    link.download = '';
    document.body.append(link);
    link.click();
    link.remove();
  }

  copy(text: string): void {
    const before = document.activeElement;
    Clipboard.copyToSystem(text); // restoring the selection may move the focus to its cell
    if (before instanceof HTMLElement) {
      before.focus();
    }
    Notification.info(this.trans.__('Copied.'), { autoClose: 1500 });
  }

  menu(items: MenuItem[], x: number, y: number): void {
    const before = document.activeElement;
    const commands = new CommandRegistry();
    const menu = new Menu({ commands });
    items.forEach(({ label, run }, index) => {
      if (run) {
        commands.addCommand(String(index), { label, execute: run });
        menu.addItem({ command: String(index) });
      } else {
        menu.addItem({ type: 'separator' });
      }
    });
    menu.aboutToClose.connect(() => {
      if (before instanceof HTMLElement) {
        before.focus();
      }
      // Later: the command of the chosen item runs after the menu has closed.
      setTimeout(() => menu.dispose());
    });
    menu.open(x, y);
  }

  async #openNotebook(commands: CommandRegistry, path: string, cell: string | null): Promise<void> {
    try {
      const opened: unknown = await commands.execute('docmanager:open', { path });
      if (cell !== null && opened instanceof Widget && 'setFragment' in opened) {
        await this.#goToCell(opened as Widget & Notebook, cell);
      }
    } catch (error) {
      Notification.error(sanitize(this.trans.__('Could not open %1: %2', path, String(error))));
    }
  }

  /** Make a cell the active one, and scroll to it. */
  async #goToCell(notebook: Notebook, cell: string): Promise<void> {
    await notebook.context.ready;
    const index = notebook.content.widgets.findIndex(({ model }) => model.id === cell);
    if (index < 0) {
      Notification.info(this.trans.__('The cell of this job is no longer in the notebook.'), {
        autoClose: 5000
      });
      return;
    }
    notebook.content.activeCellIndex = index;
    notebook.setFragment(`#cell-id=${cell}`);
  }

  async #act(row: Row, action: Action): Promise<void> {
    if (!(await this.#confirmed(row, action))) {
      return;
    }
    try {
      await this.#api.act(row, action);
    } catch (error) {
      Notification.error(errorText(toServerError(error)));
    }
  }

  async #confirmed(row: Row, action: Action): Promise<boolean> {
    const confirmation = confirmationFor(row, action, this.trans);
    if (!confirmation) {
      return true;
    }
    const { title, body, confirm, dismiss } = confirmation;
    const { button } = await showDialog({
      title,
      body,
      buttons: [Dialog.cancelButton({ label: dismiss }), Dialog.warnButton({ label: confirm })],
      defaultButton: 0
    });
    return button.accept;
  }
}
