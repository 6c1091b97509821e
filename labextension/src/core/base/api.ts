/** Requests to the server extension, and what their failures mean. */

import type { Action, Problem, Row } from './protocol';
import { english, type Words } from './translator';

/** What the host offers: a `fetch` that knows the server's address and the user's token. */
export type Fetch = (path: string, init?: { method?: string; body?: string }) => Promise<Response>;

export class ApiError extends Error {
  readonly hint: string | null;

  constructor(message: string, hint: string | null) {
    super(message);
    this.hint = hint;
  }
}

export class Api {
  #fetch: Fetch;
  #words: Words;

  constructor(fetch: Fetch, words: Words = english) {
    this.#fetch = fetch;
    this.#words = words;
  }

  /** Do something to a job; throws an `ApiError` that says why not. */
  async act({ key, uid }: Pick<Row, 'key' | 'uid'>, action: Action): Promise<void> {
    const path = `jobs/${encodeURIComponent(key)}`;
    if (action === 'delete') {
      await this.#ask(path, { method: 'DELETE' });
    } else if (action === 'trust') {
      // For the job that was looked at: its name may be another one's by now.
      await this.post(`${path}/trust`, { uid });
    } else {
      await this.#ask(`${path}/${action}`, { method: 'POST' });
    }
  }

  /** Get something; throws an `ApiError` that says why not. */
  async get<T>(path: string): Promise<T> {
    return (await (await this.#ask(path)).json()) as T;
  }

  /** Send something and give the answer; throws an `ApiError` that says why not. */
  async post<T>(path: string, body: unknown): Promise<T> {
    const response = await this.#ask(path, { method: 'POST', body: JSON.stringify(body) });
    return (await response.json()) as T;
  }

  /** Find out why there is no WebSocket; null when requests work. */
  async probe(): Promise<Problem | null> {
    let response: Response;
    try {
      response = await this.#fetch('jobs');
    } catch {
      return { kind: 'unreachable', message: this.#silent(), hint: null };
    }
    if (response.ok) {
      return null;
    }
    const { message, hint } = await this.#said(response);
    if (response.status === 404) {
      return { kind: 'missing', message, hint };
    }
    const refused = response.status === 401 || response.status === 403;
    return { kind: refused ? 'refused' : 'other', message, hint };
  }

  async #ask(path: string, init: { method?: string; body?: string } = {}): Promise<Response> {
    const response = await this.#fetch(path, init).catch((error: unknown) => {
      throw new ApiError(this.#silent(), String(error));
    });
    if (!response.ok) {
      const { message, hint } = await this.#said(response);
      throw new ApiError(message, hint);
    }
    return response;
  }

  #silent(): string {
    return this.#words.__('The Jupyter server does not answer.');
  }

  /** Read the words of an error; a proxy's own page has none. */
  async #said(response: Response): Promise<{ message: string; hint: string | null }> {
    try {
      const said = (await response.json()) as { message?: unknown; hint?: unknown };
      if (typeof said.message === 'string' && said.message) {
        return { message: said.message, hint: typeof said.hint === 'string' ? said.hint : null };
      }
    } catch {
      // It was no JSON.
    }
    const { status, statusText } = response;
    return { message: this.#words.__('The server said %1 %2', status, statusText), hint: null };
  }
}
