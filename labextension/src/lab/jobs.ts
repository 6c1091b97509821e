import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { h } from 'preact';

import { JobsStore, JobStore } from '../core/stores';
import { Job } from '../core/views/job';
import { Jobs } from '../core/views/jobs';
import { IConnection } from './connection';
import { LabHost } from './host';
import { OPEN_LOG } from './logs';
import { trainIcon } from './icon';
import { notifyEnd, type Notify } from './notify';
import { ViewWidget } from './widget';

const ID = 'jupyter-jax-trainer:jobs';
const PANEL = 'jaxtrain-panel';
const SHOW = 'jaxtrain:show-jobs';
const OPEN = 'jaxtrain:open-job';
const RECONNECT = 'jaxtrain:reconnect';

type JobTab = MainAreaWidget<ViewWidget>;

function activate(
  app: JupyterFrontEnd,
  { api, live }: IConnection,
  translator: ITranslator | null,
  labShell: ILabShell | null,
  restorer: ILayoutRestorer | null,
  palette: ICommandPalette | null,
  launcher: ILauncher | null,
  settings: ISettingRegistry | null
): void {
  const words = (translator ?? nullTranslator).load('jupyter_jax_trainer');
  const { commands } = app;
  const open = (key: string): void => void commands.execute(OPEN, { key });
  const host = new LabHost(api, words, row => open(row.key), commands);
  host.openLog = (key, rank) =>
    void commands.execute(OPEN_LOG, { key, split: true, ...(rank !== undefined && { rank }) });
  const store = new JobsStore(live);
  const tabs = new WidgetTracker<JobTab>({ namespace: 'jaxtrain-jobs' });

  const panel = new ViewWidget(
    () => h(Jobs, { store, host }),
    () => store.dispose()
  );
  panel.id = PANEL;
  panel.title.icon = trainIcon;
  panel.title.caption = words.__('JAX Training');
  panel.node.setAttribute('role', 'region');
  panel.node.setAttribute('aria-label', words.__('JAX Training'));
  app.shell.add(panel, 'left', { rank: 600, type: 'JAX Training' });
  restorer?.add(panel, PANEL);

  const openJob = (key: string): void => {
    const id = `jaxtrain-job-${key}`;
    let tab = tabs.find(each => each.id === id);
    if (!tab) {
      tab = jobTab(key);
      tab.id = id;
      // Notebook 7 has one widget in its main area, and takes others below.
      tab.content.toggleClass('jaxtrain-below', !labShell);
      app.shell.add(tab, labShell ? 'main' : 'down', { type: 'JAX Training' });
      void tabs.add(tab);
    }
    app.shell.activateById(id);
  };
  const jobTab = (key: string): JobTab => {
    const job = new JobStore(live, key);
    const content = new ViewWidget(
      () => h(Job, { store: job, host }),
      () => job.dispose()
    );
    const tab = new MainAreaWidget({ content });
    tab.title.label = key;
    tab.title.icon = trainIcon;
    tab.title.caption = words.__('Training job %1', key);
    return tab;
  };

  app.commands.addCommand(SHOW, {
    label: args =>
      args['isLauncher'] ? words.__('Training Jobs') : words.__('Show Training Jobs'),
    caption: words.__('Show the JAX training jobs in the side bar'),
    icon: trainIcon,
    execute: () => {
      labShell?.expandLeft();
      app.shell.activateById(PANEL);
    }
  });
  app.commands.addCommand(OPEN, {
    label: words.__('Open Training Job'),
    isVisible: () => false,
    execute: args => {
      if (typeof args['key'] === 'string') {
        openJob(args['key']);
      }
    }
  });
  app.commands.addCommand(RECONNECT, {
    label: words.__('Connect Again to the Training Jobs'),
    execute: () => live.reconnect()
  });
  for (const command of [SHOW, RECONNECT]) {
    palette?.addItem({ command, category: words.__('JAX Training') });
  }
  launcher?.add({
    command: SHOW,
    args: { isLauncher: true },
    category: words.__('Other'),
    rank: 50
  });
  if (restorer) {
    void restorer.restore(tabs, {
      command: OPEN,
      args: tab => ({ key: tab.title.label }),
      name: tab => tab.title.label
    });
  }

  let notify: Notify = 'all';
  store.onEnded(row => notifyEnd(row, host, notify));
  void settings
    ?.load(ID)
    .then(loaded => {
      const update = () => {
        notify = loaded.get('notify').composite as Notify;
      };
      loaded.changed.connect(update);
      update();
    })
    .catch((error: unknown) => console.error('jaxtrain:', error));
}

export const jobs: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'The list of training jobs in the left side bar.',
  autoStart: true,
  requires: [IConnection],
  optional: [ITranslator, ILabShell, ILayoutRestorer, ICommandPalette, ILauncher, ISettingRegistry],
  activate
};
