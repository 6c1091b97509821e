import { Clipboard, Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import { Menu, Widget } from '@lumino/widgets';

import { ApiError, type Api } from '../core/api';
import { plain } from '../core/format';
import type { Host, MenuItem } from '../core/host';
import type { Action, Row } from '../core/protocol';
import type { Words } from '../core/words';

const STORE = 'jaxtrain:';

/** What of a document is used: a notebook goes to the cell that it is given. */
interface Fragments {
  setFragment(fragment: string): void;
}

/** What the views may do in JupyterLab. */
export class LabHost implements Host {
  readonly words: Words;
  readonly open: (row: Row) => void;
  readonly openNotebook?: (path: string, cell: string | null) => void;
  /** Is set by what shows logs. */
  openLog?: (key: string, rank?: number) => void;
  #api: Api;

  constructor(api: Api, words: Words, open: (row: Row) => void, commands?: CommandRegistry) {
    this.#api = api;
    this.words = words;
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

  remember(name: string, value: string): void {
    try {
      localStorage.setItem(STORE + name, value);
    } catch {
      // A browser may refuse to store anything.
    }
  }

  recall(name: string): string | null {
    try {
      return localStorage.getItem(STORE + name);
    } catch {
      return null;
    }
  }

  copy(text: string): void {
    Clipboard.copyToSystem(text);
    Notification.info(this.words.__('Copied.'), { autoClose: 1500 });
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
      // After the command of the chosen item, which is run once the menu has closed.
      setTimeout(() => menu.dispose());
    });
    menu.open(x, y);
  }

  async #openNotebook(commands: CommandRegistry, path: string, cell: string | null): Promise<void> {
    try {
      const opened: unknown = await commands.execute('docmanager:open', { path });
      if (cell !== null && opened instanceof Widget && 'setFragment' in opened) {
        (opened as Widget & Fragments).setFragment(`#cell-id=${cell}`);
      }
    } catch (error) {
      Notification.error(plain(this.words.__('%1 could not be opened: %2', path, String(error))));
    }
  }

  async #act(row: Row, action: Action): Promise<void> {
    if (!(await this.#agreed(row, action))) {
      return;
    }
    try {
      await this.#api.act(row.key, action);
    } catch (error) {
      const { message, hint } =
        error instanceof ApiError ? error : new ApiError(String(error), null);
      Notification.error(
        [message, hint]
          .filter(Boolean)
          .map(text => plain(String(text)))
          .join(' ')
      );
    }
  }

  async #agreed(row: Row, action: Action): Promise<boolean> {
    const { words } = this;
    const name = plain(row.name);
    if (action !== 'cancel' && action !== 'delete') {
      return true;
    }
    const [title, body, label] =
      action === 'cancel'
        ? [
            words.__('Cancel %1?', name),
            words.__('Its processes stop. What it has printed and reported so far is kept.'),
            words.__('Cancel Job')
          ]
        : [
            words.__('Delete %1?', name),
            (row.active ? words.__('It has not ended yet, and is cancelled first.') + ' ' : '') +
              words.__('Its logs, metrics, results and checkpoints are removed for good.'),
            words.__('Delete')
          ];
    const { button } = await showDialog({
      title,
      body,
      buttons: [Dialog.cancelButton({ label: words.__('Keep') }), Dialog.warnButton({ label })],
      defaultButton: 0
    });
    return button.accept;
  }
}
