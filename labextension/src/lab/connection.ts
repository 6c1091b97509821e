import {
  ILabShell,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { PageConfig, URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { IStateDB } from '@jupyterlab/statedb';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { Token } from '@lumino/coreutils';

import { Api } from '../core/base/api';
import { Live, type Socket } from '../core/base/live';
import type { Source } from '../core/base/logprotocol';
import { JobsStore } from '../core/job/stores';
import type { Words } from '../core/base/translator';
import { Memory } from './storage';
import { DOMAIN, RECONNECT, SETTINGS } from './commands';
import { restWhileHidden } from './rest';

const PATH = 'jaxtrain/api';
const EDITOR = 'settingeditor:open'; // JupyterLab's own

/** The way to the server extension; every plugin uses the same one, so there is one WebSocket. */
export interface IConnection {
  readonly api: Api;
  readonly live: Live;
  /** All jobs: one list for the whole page. Whoever asks first opens it, and it stays. */
  readonly jobs: JobsStore;
  /** What views keep for the next page. */
  readonly memory: Memory;
}

export const IConnection = new Token<IConnection>(
  'jupyter-jax-trainer:IConnection',
  'The connection to the server extension of jupyter_jax_trainer.'
);

/** Give the address of the WebSocket, with the token where there is one. */
export function liveUrl(settings: ServerConnection.ISettings): string {
  const url = URLExt.join(settings.wsUrl, PATH, 'live');
  const { token, appendToken } = settings;
  return appendToken && token ? `${url}?token=${encodeURIComponent(token)}` : url;
}

/** Give the address of a log as a file, with the token where there is one. */
export function logUrl(
  { baseUrl, appendToken, token }: ServerConnection.ISettings,
  key: string,
  source: Source | null
): string {
  const url = URLExt.join(baseUrl, PATH, 'jobs', encodeURIComponent(key), 'log');
  const query = new URLSearchParams();
  if (source !== null) {
    query.set('source', String(source));
  }
  if (appendToken && token) {
    query.set('token', token);
  }
  return query.size > 0 ? `${url}?${query.toString()}` : url;
}

export function connect(
  settings: ServerConnection.ISettings,
  memory: Memory,
  words: Words
): IConnection {
  const api = new Api(
    (path, init = {}) =>
      ServerConnection.makeRequest(URLExt.join(settings.baseUrl, PATH, path), init, settings),
    words
  );
  const live = new Live({
    url: () => liveUrl(settings),
    connect: url => new settings.WebSocket(url) as Socket,
    probe: () => api.probe(),
    silence: 1000 * Number(PageConfig.getOption('jaxtrainPageTimeout') || '40')
  });
  let jobs: JobsStore | null = null;
  const open = () => {
    jobs = new JobsStore(live);
    restWhileHidden(jobs);
    return jobs;
  };
  return {
    api,
    live,
    memory,
    get jobs() {
      return jobs ?? open();
    }
  };
}

function activate(
  app: JupyterFrontEnd,
  translator: ITranslator | null,
  labShell: ILabShell | null,
  state: IStateDB | null,
  palette: ICommandPalette | null
): IConnection {
  const words = (translator ?? nullTranslator).load(DOMAIN);
  // Only JupyterLab has workspaces to keep it with.
  const made = connect(app.serviceManager.serverSettings, new Memory(labShell && state), words);
  app.commands.addCommand(RECONNECT, {
    label: words.__('Connect Again to the Training Jobs'),
    caption: words.__('Connect again to the server that knows the training jobs'),
    execute: () => made.live.reconnect()
  });
  app.commands.addCommand(SETTINGS, {
    label: words.__('Settings of JAX Training'),
    caption: words.__('Show the settings of logs, notices and lines of cells'),
    isVisible: () => app.commands.hasCommand(EDITOR),
    execute: () => app.commands.execute(EDITOR, { query: 'JAX Training' })
  });
  const category = words.__('JAX Training');
  palette?.addItem({ command: SETTINGS, category });
  palette?.addItem({ command: RECONNECT, category });
  return made;
}

export const connection: JupyterFrontEndPlugin<IConnection> = {
  id: 'jupyter-jax-trainer:connection',
  description: 'The connection to the server extension.',
  autoStart: true,
  provides: IConnection,
  optional: [ITranslator, ILabShell, IStateDB, ICommandPalette],
  activate
};
