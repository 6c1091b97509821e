/** REST and WebSocket of the server, over the messages of a widget. */

import type { Fetch } from '../core/base/api';
import type { Socket } from '../core/base/live';
import { Observable } from '../core/base/observable';
import { asRecord, type Model } from './model';

/** A view's end of the comm; it notifies when the kernel stops or resumes answering. */
export class Comm extends Observable {
  #model: Model;
  #page = newPage();
  #number = 0;
  #asked = new Map<number, (response: Response) => void>();
  #sockets = new Map<string, CommSocket>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Whether the kernel has not answered for a while: it may be busy, or have stopped. */
  silent = false;

  constructor(model: Model) {
    super();
    this.#model = model;
    model.on('msg:custom', this.#onMessage);
  }

  /** Send a request as over REST; there is no timeout. */
  readonly fetch: Fetch = (path, { method = 'GET', body } = {}) =>
    new Promise(resolve => {
      const ask = ++this.#number;
      this.#asked.set(ask, resolve);
      const sent: unknown = body === undefined ? null : JSON.parse(body);
      this.#send(this.#page, { ask, method, path, body: sent }, true);
    });

  /** Open a substitute for a WebSocket, with a page id of its own. */
  connect(): Socket {
    const page = newPage();
    const socket = new CommSocket(
      say => this.#send(page, { say }, say.op !== 'close'),
      () => this.#end(page)
    );
    this.#sockets.set(page, socket);
    return socket;
  }

  dispose(): void {
    clearTimeout(this.#timer);
    [...this.#sockets.keys(), this.#page].forEach(page => this.#end(page));
    this.#model.off('msg:custom', this.#onMessage);
    this.#asked.clear();
  }

  #send(page: string, message: object, answered: boolean): void {
    this.#model.send({ page, ...message });
    if (answered) {
      this.#listen();
    }
  }

  #end(page: string): void {
    this.#sockets.delete(page);
    this.#send(page, { end: true }, false);
  }

  #onMessage = (message: unknown): void => {
    const { page, hear, answer, status, body } = asRecord(message);
    const socket = typeof page === 'string' ? this.#sockets.get(page) : undefined;
    if (!socket && page !== this.#page) {
      return; // for another view of the same widget
    }
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#hush(false);
    if (Array.isArray(hear)) {
      hear.forEach(each => socket?.hear(each));
    } else if (typeof answer === 'number') {
      this.#asked.get(answer)?.(responseOf(status, body));
      this.#asked.delete(answer);
    }
    if (this.#asked.size > 0) {
      this.#listen();
    }
  };

  /** Wait for an answer, as long as the kernel says one may take. */
  #listen(): void {
    const patience = 1000 * Number(this.#model.get('patience') || 5);
    this.#timer ??= setTimeout(() => this.#hush(true), patience);
  }

  #hush(silent: boolean): void {
    if (silent !== this.silent) {
      this.silent = silent;
      this.notify();
    }
  }
}

function responseOf(status: unknown, body: unknown): Response {
  const code = typeof status === 'number' && status >= 200 && status <= 599 ? status : 502;
  return new Response(JSON.stringify(body ?? null), { status: code });
}

class CommSocket implements Socket {
  onopen: (() => void) | null = null;
  onclose: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  #say: (message: { op?: unknown }) => void;
  readonly close: () => void;

  constructor(say: (message: { op?: unknown }) => void, close: () => void) {
    this.#say = say;
    this.close = close;
    queueMicrotask(() => this.onopen?.()); // the caller needs the socket first
  }

  send(data: string): void {
    this.#say(JSON.parse(data) as { op?: unknown });
  }

  hear(message: unknown): void {
    this.onmessage?.({ data: JSON.stringify(message) });
  }
}

/** Return a unique page id. */
function newPage(): string {
  return Array.from({ length: 2 }, () => Math.random().toString(36).slice(2)).join('');
}
