import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { Token } from '@lumino/coreutils';

import { Api } from '../core/api';
import { Live, type Socket } from '../core/live';

const PATH = 'jaxtrain/api';

/** The way to the server extension; every plugin uses the same one, so there is one WebSocket. */
export interface IConnection {
  readonly api: Api;
  readonly live: Live;
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

export function connect(settings: ServerConnection.ISettings): IConnection {
  const api = new Api((path, init = {}) =>
    ServerConnection.makeRequest(URLExt.join(settings.baseUrl, PATH, path), init, settings)
  );
  const live = new Live({
    url: () => liveUrl(settings),
    connect: url => new settings.WebSocket(url) as Socket,
    probe: () => api.probe()
  });
  return { api, live };
}

export const connection: JupyterFrontEndPlugin<IConnection> = {
  id: 'jupyter-jax-trainer:connection',
  description: 'The connection to the server extension.',
  autoStart: true,
  provides: IConnection,
  activate: app => connect(app.serviceManager.serverSettings)
};
