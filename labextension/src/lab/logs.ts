import {
  ILabShell,
  ILayoutRestorer,
  IRouter,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget, Notification, WidgetTracker } from '@jupyterlab/apputils';
import { PageConfig, URLExt } from '@jupyterlab/coreutils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { sanitize } from '../core/base/format';
import type { Host } from '../core/base/host';
import type { Source } from '../core/base/protocol';
import { loadedJobs } from '../core/jobs/store';
import { DEFAULTS, type LogSettings } from '../core/log/settings';
import { DOMAIN, OPEN_JOB, OPEN_LAST_LOG, OPEN_LOG, SHOW_JOBS } from './commands';
import { IConnection } from './connection';
import { LabHost } from './host';
import { trainIcon } from './icons';
import { LINK, linkTo, readLink, withoutLink } from './links';
import { LogWidget } from './logwidget';
import { onSettings } from './settings';
import { toFront } from './shell';

const ID = 'jupyter-jax-trainer:logs';
const ROUTE = 'jaxtrain:open-log-of-address';
const PREFIX = 'jaxtrain-log-';

/** The host of the log viewer in JupyterLab. */
class LabLogHost extends LabHost implements Host {
  page = window.location.href;

  link(key: string, position: number, source: Source | null): string {
    return linkTo(this.page, key, position, source);
  }
}

type LogTab = MainAreaWidget<LogWidget>;

function activate(
  app: JupyterFrontEnd,
  { api, live, jobs, storage }: IConnection,
  translator: ITranslator | null,
  labShell: ILabShell | null,
  restorer: ILayoutRestorer | null,
  palette: ICommandPalette | null,
  registry: ISettingRegistry | null,
  router: IRouter | null
): void {
  const trans = (translator ?? nullTranslator).load(DOMAIN);
  const { commands } = app;
  const settings = app.serviceManager.serverSettings;
  const openJob = (key: string): void => void commands.execute(OPEN_JOB, { key });
  const host = new LabLogHost(api, trans, row => openJob(row.key), commands, { storage, settings });
  if (labShell) {
    const own = URLExt.join(PageConfig.getBaseUrl(), PageConfig.getOption('appUrl') || 'lab');
    host.page = new URL(own, window.location.href).href;
  }
  const tabs = new WidgetTracker<LogTab>({ namespace: 'jaxtrain-logs' });
  let logSettings: LogSettings = DEFAULTS;

  const dressed = (tab: LogTab): LogTab => {
    const { content } = tab;
    const { store } = content;
    const { key } = store;
    const name = () => {
      tab.title.label = trans.__('log of %1', sanitize(store.name));
    };
    name();
    store.subscribe(name);
    tab.id = PREFIX + key;
    tab.title.icon = trainIcon;
    tab.title.caption = trans.__('Log of training job %1', sanitize(key));
    content.node.setAttribute('aria-label', tab.title.caption);
    return tab;
  };

  /** Open the first log beside the other tabs, and further ones as tabs next to it. */
  const beside = (): { mode: 'tab-after' | 'split-right'; ref?: string } => {
    const other = tabs.find(({ isAttached }) => isAttached);
    return other ? { ref: other.id, mode: 'tab-after' } : { mode: 'split-right' };
  };

  commands.addCommand(OPEN_LOG, {
    label: trans.__('Open Training Log'),
    isVisible: () => false,
    execute: async args => {
      const { key, line, rank, container, split } = args;
      if (typeof key !== 'string') {
        return;
      }
      const loading = import('./logwidget'); // loaded with the first log
      await storage.ready;
      const { LogWidget } = await loading;
      let tab = tabs.find(each => each.id === PREFIX + key);
      if (!tab) {
        tab = dressed(
          new MainAreaWidget({ content: new LogWidget(live, key, trans, host, () => logSettings) })
        );
        // Notebook 7 has one widget in its main area, and takes others below.
        tab.content.toggleClass('jaxtrain-below', !labShell);
        app.shell.add(tab, labShell ? 'main' : 'down', {
          type: 'JAX Training',
          ...(split === true && beside())
        });
        void tabs.add(tab);
      } else if (tab.content.store.error) {
        tab.content.reader.show({}); // its job was deleted; there may be another one of the name by now
      }
      toFront(app.shell, tab);
      if (typeof rank === 'number') {
        tab.content.reader.show({ sources: [rank] });
      }
      if (typeof line === 'number') {
        tab.content.reader.goToPosition(line, typeof container === 'string' ? container : null);
      }
    }
  });
  commands.addCommand(OPEN_LAST_LOG, {
    label: trans.__('Open Log of Latest Training Job'),
    caption: trans.__('Open the log of the training job that was submitted last'),
    execute: async () => {
      const rows = await loadedJobs(jobs);
      const [last] = rows ?? [];
      if (last) {
        await commands.execute(OPEN_LOG, { key: last.key });
      } else if (!rows && commands.hasCommand(SHOW_JOBS)) {
        await commands.execute(SHOW_JOBS); // the list shows what is wrong
      } else {
        Notification.info(trans.__('No training jobs yet'), { autoClose: 5000 });
      }
    }
  });
  palette?.addItem({ command: OPEN_LAST_LOG, category: trans.__('JAX Training') });

  commands.addCommand(ROUTE, {
    label: trans.__('Open the Training Log of This Address'),
    isVisible: () => false,
    execute: async args => {
      const link = readLink(typeof args['search'] === 'string' ? args['search'] : '');
      if (link) {
        await app.restored;
        await commands.execute(OPEN_LOG, { ...link });
        const { pathname, search, hash } = window.location;
        router?.navigate(withoutLink(pathname + search + hash), { skipRouting: true });
      }
    }
  });
  router?.register({ command: ROUTE, pattern: LINK });

  if (restorer) {
    void restorer.restore(tabs, {
      command: OPEN_LOG,
      args: tab => ({ key: tab.id.slice(PREFIX.length) }),
      name: tab => tab.id
    });
  }
  void onSettings(registry, ID, values => {
    const before = logSettings;
    logSettings = { ...DEFAULTS, ...values };
    tabs.forEach(({ content }) => content.applySettings(before, logSettings));
  });
}

export const logs: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'The log viewer.',
  autoStart: true,
  requires: [IConnection],
  optional: [ITranslator, ILabShell, ILayoutRestorer, ICommandPalette, ISettingRegistry, IRouter],
  activate
};
