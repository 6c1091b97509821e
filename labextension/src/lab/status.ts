import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { h } from 'preact';

import { StatusItem, statusText } from '../core/jobs/statusbar';
import { DOMAIN, SHOW_JOBS } from './commands';
import { IConnection } from './connection';
import { ViewWidget } from './viewwidget';

const ID = 'jupyter-jax-trainer:status';

/** It shares the page's list of jobs, so it adds no request. */
function activate(
  app: JupyterFrontEnd,
  connection: IConnection,
  bar: IStatusBar | null,
  translator: ITranslator | null
): void {
  if (!bar) {
    return; // Notebook 7 has none
  }
  const { jobs: store } = connection;
  const trans = (translator ?? nullTranslator).load(DOMAIN);
  const onClick = (): void => {
    if (app.commands.hasCommand(SHOW_JOBS)) {
      void app.commands.execute(SHOW_JOBS);
    }
  };
  const item = new ViewWidget(() => h(StatusItem, { store, trans, onClick }));
  const isActive = (): boolean => statusText(store.rows, trans) !== '';
  bar.registerStatusItem(ID, { item, align: 'left', rank: 50, isActive });
  store.subscribe(() => item.setHidden(!isActive()));
}

export const status: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'How many training jobs run, in the status bar.',
  autoStart: true,
  requires: [IConnection],
  optional: [IStatusBar, ITranslator],
  activate
};
