import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { h } from 'preact';

import { HereStore } from '../core/jobs/here';
import { hereText, StatusItem, statusText } from '../core/jobs/statusbar';
import { DOMAIN, SHOW_JOBS } from './commands';
import { IConnection, pauseWhileHidden } from './connection';
import { ViewWidget } from './viewwidget';

const ID = 'jupyter-jax-trainer:status';

/** Shares the page's list of jobs; requests machine usage only while no job is active. */
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
  const here = new HereStore(connection.live);
  const item = new ViewWidget(() => h(StatusItem, { store, here, trans, onClick }));
  const hasJobs = (): boolean => statusText(store.rows, trans) !== '';
  const isActive = (): boolean => hasJobs() || hereText(here.look, trans) !== '';
  let hidden = false;
  const update = (): void => {
    if (hidden || hasJobs()) {
      here.pause();
    } else {
      here.resume();
    }
    item.setHidden(!isActive());
  };
  pauseWhileHidden({
    pause: () => {
      hidden = true;
      update();
    },
    resume: () => {
      hidden = false;
      update();
    }
  });
  bar.registerStatusItem(ID, { item, align: 'left', rank: 50, isActive });
  store.subscribe(update);
  here.subscribe(() => item.setHidden(!isActive()));
}

export const status: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'How many training jobs run, else what is used of this machine, in the status bar.',
  autoStart: true,
  requires: [IConnection],
  optional: [IStatusBar, ITranslator],
  activate
};
