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

import { sanitize } from '../core/base/format';
import { JobStore } from '../core/job/store';
import { Job } from '../core/job/view';
import { Jobs } from '../core/jobs/view';
import { DOMAIN, OPEN_JOB, OPEN_LOG, SHOW_JOBS } from './commands';
import { IConnection } from './connection';
import { LabHost } from './host';
import { trainIcon } from './icons';
import { isWaitInView } from './mime';
import { type Notify, notifyEnd, notifyIdle, notifyMissed } from './notifications';
import { onSettings } from './settings';
import { toFocus, toFront } from './shell';
import { ViewWidget } from './viewwidget';
import { XprofTabs } from './xprof';

const ID = 'jupyter-jax-trainer:jobs';
const PANEL = 'jaxtrain-panel';
const PREFIX = 'jaxtrain-job-';

type JobTab = MainAreaWidget<ViewWidget>;

function activate(
  app: JupyterFrontEnd,
  { api, live, jobs: store, storage }: IConnection,
  translator: ITranslator | null,
  labShell: ILabShell | null,
  restorer: ILayoutRestorer | null,
  palette: ICommandPalette | null,
  launcher: ILauncher | null,
  registry: ISettingRegistry | null
): void {
  const trans = (translator ?? nullTranslator).load(DOMAIN);
  const { commands } = app;
  const open = (key: string): void => void commands.execute(OPEN_JOB, { key });
  const settings = app.serviceManager.serverSettings;
  const host = new LabHost(api, trans, row => open(row.key), commands, { storage, settings });
  void app.started.then(() => {
    if (commands.hasCommand(OPEN_LOG)) {
      host.openLog = (key, rank) =>
        void commands.execute(OPEN_LOG, { key, split: true, ...(rank !== undefined && { rank }) });
    }
  });
  const xprof = new XprofTabs(app.shell, labShell ? 'main' : 'down', api, settings, trans);
  host.openXprof = (key, profile) => xprof.open(key, profile);
  const tabs = new WidgetTracker<JobTab>({ namespace: 'jaxtrain-jobs' });
  const opened = new Map<string, JobStore>();

  const panel = new ViewWidget(() => h(Jobs, { store, host }), undefined, storage.ready);
  panel.id = PANEL;
  panel.title.icon = trainIcon;
  panel.title.caption = trans.__('JAX Training');
  panel.node.setAttribute('role', 'region');
  panel.node.setAttribute('aria-label', trans.__('JAX Training'));
  app.shell.add(panel, 'left', { rank: 600, type: 'JAX Training' });
  restorer?.add(panel, PANEL);

  const openJob = (key: string, split: boolean): void => {
    const id = PREFIX + key;
    let tab = tabs.find(each => each.id === id);
    if (!tab) {
      tab = jobTab(key);
      tab.id = id;
      // Notebook 7 has one widget in its main area, and takes others below.
      tab.content.toggleClass('jaxtrain-below', !labShell);
      app.shell.add(tab, labShell ? 'main' : 'down', {
        type: 'JAX Training',
        ...(split && { mode: 'split-right' })
      });
      void tabs.add(tab);
    } else {
      opened.get(key)?.refresh();
    }
    toFront(app.shell, tab);
  };
  const jobTab = (key: string): JobTab => {
    const job = new JobStore(live, key);
    opened.set(key, job);
    const content = new ViewWidget(
      () => h(Job, { store: job, host }),
      () => {
        opened.delete(key);
        job.dispose();
      },
      storage.ready
    );
    const tab = new MainAreaWidget({ content });
    tab.title.label = sanitize(key);
    tab.title.icon = trainIcon;
    tab.title.caption = trans.__('Training job %1', sanitize(key));
    content.node.setAttribute('aria-label', tab.title.caption);
    return tab;
  };

  commands.addCommand(SHOW_JOBS, {
    label: args =>
      args['isLauncher'] === true ? trans.__('Training Jobs') : trans.__('Show Training Jobs'),
    caption: trans.__('Show the JAX training jobs in the sidebar'),
    icon: trainIcon,
    execute: () => {
      labShell?.expandLeft();
      toFocus(app.shell, panel);
    }
  });
  commands.addCommand(OPEN_JOB, {
    label: trans.__('Open Training Job'),
    isVisible: () => false,
    execute: args => {
      if (typeof args['key'] === 'string') {
        openJob(args['key'], args['split'] === true);
      }
    }
  });
  const category = trans.__('JAX Training');
  palette?.addItem({ command: SHOW_JOBS, category });
  launcher?.add({ command: SHOW_JOBS, args: { isLauncher: true }, category, rank: 1 });
  if (restorer) {
    void restorer.restore(tabs, {
      command: OPEN_JOB,
      args: tab => ({ key: tab.id.slice(PREFIX.length) }),
      name: tab => tab.id
    });
  }

  let notify: Notify = 'all';
  const known = onSettings(registry, ID, values => {
    notify = values['notify'] as Notify;
  });
  store.onEnded(row => void notifyEnd(row, host, notify, isWaitInView));
  store.subscribe(() =>
    store.rows.forEach(row => row.session && void notifyIdle(row, host, notify))
  );
  // JupyterLab shows no notifications before it is restored.
  const ready = Promise.all([known, app.started, app.restored]);
  notifyMissed(store, settings.baseUrl, row => void ready.then(() => notifyEnd(row, host, notify)));
}

export const jobs: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'The list of training jobs in the left side bar, and a tab for each job.',
  autoStart: true,
  requires: [IConnection],
  optional: [ITranslator, ILabShell, ILayoutRestorer, ICommandPalette, ILauncher, ISettingRegistry],
  activate
};
