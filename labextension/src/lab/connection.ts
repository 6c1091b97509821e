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
import type { Source } from '../core/base/protocol';
import type { Translator } from '../core/base/translator';
import { JobsStore } from '../core/jobs/store';
import { DOMAIN, RECONNECT, SETTINGS } from './commands';
import { ViewStorage } from './storage';

const PATH = 'jaxtrain/api';
const EDITOR = 'settingeditor:open'; // JupyterLab's own

/** The connection to the server extension; all plugins share it, so there is one WebSocket. */
export interface IConnection {
  readonly api: Api;
  readonly live: Live;
  /** All jobs: one list for the whole page, opened at the first use. */
  readonly jobs: JobsStore;
  /** What views store for later pages. */
  readonly storage: ViewStorage;
}

export const IConnection = new Token<IConnection>(
  'jupyter-jax-trainer:IConnection',
  'The connection to the server extension of jupyter_jax_trainer.'
);

/** Return the address of the WebSocket, with the token if there is one. */
export function liveUrl(settings: ServerConnection.ISettings): string {
  const url = URLExt.join(settings.wsUrl, PATH, 'live');
  const { token, appendToken } = settings;
  return appendToken && token ? `${url}?token=${encodeURIComponent(token)}` : url;
}

/** Return the address of a log as a file, with the token if there is one. */
export function logUrl(
  settings: ServerConnection.ISettings,
  key: string,
  source: Source | null
): string {
  const query = source === null ? {} : { source: String(source) };
  return fileUrl(settings, `jobs/${encodeURIComponent(key)}/log`, query);
}

/** Return the address of what a rank has recorded for a profile, likewise. */
export function traceUrl(
  settings: ServerConnection.ISettings,
  key: string,
  profile: string,
  rank: number
): string {
  const path = `jobs/${encodeURIComponent(key)}/profiles/${encodeURIComponent(profile)}/trace`;
  return fileUrl(settings, path, { rank: String(rank) });
}

function fileUrl(
  { baseUrl, appendToken, token }: ServerConnection.ISettings,
  path: string,
  given: Record<string, string>
): string {
  const url = URLExt.join(baseUrl, PATH, path);
  const query = new URLSearchParams(given);
  if (appendToken && token) {
    query.set('token', token);
  }
  return query.size > 0 ? `${url}?${query.toString()}` : url;
}

export function connect(
  settings: ServerConnection.ISettings,
  storage: ViewStorage,
  trans: Translator
): IConnection {
  const api = new Api(
    (path, init = {}) =>
      ServerConnection.makeRequest(URLExt.join(settings.baseUrl, PATH, path), init, settings),
    trans
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
    pauseWhileHidden(jobs);
    return jobs;
  };
  return {
    api,
    live,
    storage,
    get jobs() {
      return jobs ?? open();
    }
  };
}

const PAUSE_AFTER = 60_000; // milliseconds; a short look at another page costs no reconnect

interface Pausable {
  pause(): void;
  resume(): void;
}

/** Pause something while the page is hidden; return a function that ends that. */
export function pauseWhileHidden(target: Pausable): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const check = () => {
    clearTimeout(timer);
    if (document.hidden) {
      timer = setTimeout(() => target.pause(), PAUSE_AFTER);
    } else {
      target.resume();
    }
  };
  document.addEventListener('visibilitychange', check);
  check();
  return () => {
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', check);
  };
}

function activate(
  app: JupyterFrontEnd,
  translator: ITranslator | null,
  labShell: ILabShell | null,
  state: IStateDB | null,
  palette: ICommandPalette | null
): IConnection {
  const trans = (translator ?? nullTranslator).load(DOMAIN);
  // Only JupyterLab has workspaces.
  const made = connect(
    app.serviceManager.serverSettings,
    new ViewStorage(labShell && state),
    trans
  );
  app.commands.addCommand(RECONNECT, {
    label: trans.__('Reconnect to Training Jobs'),
    caption: trans.__('Reconnect to the server extension'),
    execute: () => made.live.reconnect()
  });
  app.commands.addCommand(SETTINGS, {
    label: trans.__('JAX Training Settings'),
    caption: trans.__('Show the settings of logs, notifications and new lines'),
    isVisible: () => app.commands.hasCommand(EDITOR),
    execute: () => app.commands.execute(EDITOR, { query: 'JAX Training' })
  });
  const category = trans.__('JAX Training');
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
