import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { URLExt } from '@jupyterlab/coreutils';
import type { ServerConnection } from '@jupyterlab/services';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { h } from 'preact';

import { plain } from '../core/format';
import type { LogHost } from '../core/log/host';
import type { Source } from '../core/log/protocol';
import { Reader } from '../core/log/reader';
import { LogStore } from '../core/log/store';
import { LogView } from '../core/log/view';
import type { Detail } from '../core/protocol';
import { IConnection } from './connection';
import { LabHost } from './host';
import { trainIcon } from './icon';
import { ViewWidget } from './widget';

const ID = 'jupyter-jax-trainer:logs';
/** The command that opens a log; it is there while this plugin is. */
export const OPEN_LOG = 'jaxtrain:open-log';
const OPEN_JOB = 'jaxtrain:open-job';
const PREFIX = 'jaxtrain-log-';

/** Give the address of a log as a file, with the token where there is one. */
export function logUrl(
  { baseUrl, appendToken, token }: ServerConnection.ISettings,
  key: string,
  source: Source | null
): string {
  const url = URLExt.join(baseUrl, 'jaxtrain/api/jobs', encodeURIComponent(key), 'log');
  const query = new URLSearchParams();
  if (source !== null) {
    query.set('source', String(source));
  }
  if (appendToken && token) {
    query.set('token', token);
  }
  return query.size > 0 ? `${url}?${query.toString()}` : url;
}

/** What the log viewer may do in JupyterLab. */
class LabLogHost extends LabHost implements LogHost {
  settings: ServerConnection.ISettings | null = null;

  save(key: string, source: Source | null): void {
    if (this.settings) {
      const link = document.createElement('a');
      link.href = logUrl(this.settings, key, source);
      link.download = '';
      document.body.append(link);
      link.click();
      link.remove();
    }
  }
}

/** The keys of the viewer act on its lines, so these get the focus. */
class LogWidget extends ViewWidget {
  protected override onActivateRequest(): void {
    const lines = this.node.querySelector<HTMLElement>('.jaxtrain-log-list');
    if (lines) {
      lines.focus();
    } else {
      super.onActivateRequest();
    }
  }
}

interface LogTab extends MainAreaWidget<ViewWidget> {
  reader?: Reader;
}

function activate(
  app: JupyterFrontEnd,
  { api, live }: IConnection,
  translator: ITranslator | null,
  labShell: ILabShell | null,
  restorer: ILayoutRestorer | null
): void {
  const words = (translator ?? nullTranslator).load('jupyter_jax_trainer');
  const host = new LabLogHost(
    api,
    words,
    row => void app.commands.execute(OPEN_JOB, { key: row.key })
  );
  host.settings = app.serviceManager.serverSettings;
  const tabs = new WidgetTracker<LogTab>({ namespace: 'jaxtrain-logs' });

  const make = (key: string): LogTab => {
    const store = new LogStore(live, key);
    const reader = new Reader(store, words);
    const content = new LogWidget(
      () => h(LogView, { reader, host }),
      () => {
        reader.dispose();
        store.dispose();
      }
    );
    const tab: LogTab = new MainAreaWidget({ content });
    tab.reader = reader;
    tab.id = PREFIX + key;
    tab.title.label = words.__('log of %1', plain(key));
    tab.title.icon = trainIcon;
    tab.title.caption = words.__('Log of training job %1', plain(key));
    void name(tab, store);
    return tab;
  };
  const name = async (tab: LogTab, store: LogStore): Promise<void> => {
    try {
      const { row, logs } = await api.get<Detail>(`jobs/${encodeURIComponent(store.key)}`);
      store.setNames(logs);
      tab.title.label = words.__('log of %1', plain(row.name));
    } catch {
      // The view says itself what is wrong, and finds out whose lines there are.
    }
  };

  app.commands.addCommand(OPEN_LOG, {
    label: words.__('Open Training Log'),
    isVisible: () => false,
    execute: args => {
      const { key, line, rank, split } = args;
      if (typeof key !== 'string') {
        return;
      }
      let tab = tabs.find(each => each.id === PREFIX + key);
      if (!tab) {
        tab = make(key);
        // Notebook 7 has one widget in its main area, and takes others below.
        tab.content.toggleClass('jaxtrain-below', !labShell);
        app.shell.add(tab, labShell ? 'main' : 'down', {
          type: 'JAX Training',
          ...(split === true && { mode: 'split-right' })
        });
        void tabs.add(tab);
      }
      app.shell.activateById(tab.id);
      if (typeof rank === 'number') {
        tab.reader?.show({ sources: [rank] });
      }
      if (typeof line === 'number') {
        tab.reader?.goToPosition(line);
      }
    }
  });
  if (restorer) {
    void restorer.restore(tabs, {
      command: OPEN_LOG,
      args: tab => ({ key: tab.id.slice(PREFIX.length) }),
      name: tab => tab.id
    });
  }
}

export const logs: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'The log viewer.',
  autoStart: true,
  requires: [IConnection],
  optional: [ITranslator, ILabShell, ILayoutRestorer],
  activate
};
