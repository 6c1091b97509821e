import { Notification } from '@jupyterlab/apputils';

import type { Translator } from '../core/base/translator';
import type { Tracker } from './cells';

export const LOAD = '%load_ext jupyter_jax_trainer';

/**
 * Tells the user, once per notebook, what to run before its first job, if no cell does that.
 *
 * `insert` inserts an empty cell above the active one, and activates it.
 */
export class LoadHint {
  #tracker: Tracker;
  #words: Translator;
  #insert: () => Promise<unknown>;
  #shownFor = new WeakSet();

  constructor(tracker: Tracker, trans: Translator, insert: () => Promise<unknown>) {
    this.#tracker = tracker;
    this.#words = trans;
    this.#insert = insert;
  }

  notify(): void {
    const notebook = this.#tracker.currentWidget;
    const cells = notebook?.content.widgets ?? [];
    const loads = cells.some(({ model }) =>
      model.sharedModel.getSource().includes('load_ext jupyter_jax_trainer')
    );
    if (!notebook || loads || this.#shownFor.has(notebook)) {
      return;
    }
    this.#shownFor.add(notebook);
    const trans = this.#words;
    Notification.info(trans.__('Run %1 once in this notebook before its first job.', LOAD), {
      autoClose: 15_000,
      actions: [{ label: trans.__('Insert Cell'), callback: () => void this.#add() }]
    });
  }

  async #add(): Promise<void> {
    await this.#insert();
    const cell = this.#tracker.activeCell?.model.sharedModel;
    if (cell?.getSource() === '') {
      cell.updateSource(0, 0, LOAD);
    }
  }
}
