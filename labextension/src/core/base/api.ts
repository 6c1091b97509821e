/** Requests to the server extension. */

import { ServerError } from './errors';
import type { Action, Problem, Row } from './protocol';
import { english, type Translator } from './translator';

const NO_ANSWER = [503, 504]; // from the server, or from a proxy before it

/** A `fetch` that knows the server's address and the user's token. */
export type Fetch = (path: string, init?: { method?: string; body?: string }) => Promise<Response>;

export class Api {
  #fetch: Fetch;
  #words: Translator;

  constructor(fetch: Fetch, trans: Translator = english) {
    this.#fetch = fetch;
    this.#words = trans;
  }

  /** Do something to a job; throws a `ServerError`. */
  async act({ key, uid }: Pick<Row, 'key' | 'uid'>, action: Action): Promise<void> {
    const path = `jobs/${encodeURIComponent(key)}`;
    if (action === 'delete') {
      await this.#send(path, { method: 'DELETE' });
    } else if (action === 'trust') {
      // With the uid: another job may have the name by now.
      await this.post(`${path}/trust`, { uid });
    } else {
      await this.#send(`${path}/${action}`, { method: 'POST' });
    }
  }

  /** Get something; throws a `ServerError`. */
  async get<T>(path: string): Promise<T> {
    return (await (await this.#send(path)).json()) as T;
  }

  /** Post something and return the answer; throws a `ServerError`. */
  async post<T>(path: string, body: unknown): Promise<T> {
    const response = await this.#send(path, { method: 'POST', body: JSON.stringify(body) });
    return (await response.json()) as T;
  }

  /** Find out why there is no WebSocket; null if requests work. */
  async probe(): Promise<Problem | null> {
    let response: Response;
    try {
      response = await this.#fetch('jobs');
    } catch {
      return { kind: 'unreachable', message: this.#noAnswer(), hint: null };
    }
    if (response.ok) {
      return null;
    }
    const { message, hint } = await this.#errorOf(response);
    if (response.status === 404) {
      return { kind: 'missing', message, hint };
    }
    const refused = response.status === 401 || response.status === 403;
    return { kind: refused ? 'refused' : 'other', message, hint };
  }

  async #send(path: string, init: { method?: string; body?: string } = {}): Promise<Response> {
    const response = await this.#fetch(path, init).catch((error: unknown) => {
      throw new ServerError(this.#noAnswer(), String(error), true);
    });
    if (!response.ok) {
      const { message, hint } = await this.#errorOf(response);
      throw new ServerError(message, hint, NO_ANSWER.includes(response.status));
    }
    return response;
  }

  #noAnswer(): string {
    return this.#words.__('The Jupyter server is not responding.');
  }

  /** Read an error response; that of a proxy has no message of ours. */
  async #errorOf(response: Response): Promise<{ message: string; hint: string | null }> {
    try {
      const error = (await response.json()) as { message?: unknown; hint?: unknown };
      if (typeof error.message === 'string' && error.message) {
        return { message: error.message, hint: typeof error.hint === 'string' ? error.hint : null };
      }
    } catch {
      // It is not JSON.
    }
    const { status, statusText } = response;
    return {
      message: this.#words.__('The server responded with %1 %2', status, statusText),
      hint: null
    };
  }
}
