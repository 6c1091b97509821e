/**
 * The one WebSocket to the server extension.
 *
 * A topic stays open until it is closed, over as many sockets as that takes: after a reconnect all
 * topics are opened again under the same ids, in the same order. The server then sends everything
 * again, with positions, so that nothing is shown twice. Messages of an abandoned socket are never
 * delivered. A query is kept until it is answered, and sent again in its turn, so that the view it
 * refers to is open by then.
 */

import { aborted, ServerError } from './errors';
import { Observable } from './observable';
import type { LogMessage, LogRequest, Message, Problem, Query, Reply, Request } from './protocol';
import { backOff, onSilence, onWake } from './reconnect';

const MISSING_RETRY = 300_000; // milliseconds between attempts while the extension is missing
const SHUT: Problem = { kind: 'shut', message: '', hint: null };

/** The part of a WebSocket that is used. */
export interface Socket {
  onopen: (() => void) | null;
  onclose: (() => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  send(data: string): void;
  close(): void;
}

export interface LiveOptions {
  /** The address; asked for at each attempt, since a token may have changed. */
  url: () => string;
  connect?: (url: string) => Socket;
  /** Finds out why there is no connection, which a browser does not say. Null: requests work. */
  probe?: () => Promise<Problem | null>;
  random?: () => number;
  /** After how many silent milliseconds a connection is dead; a kernel's may stay silent. */
  silence?: number;
}

export type Status = 'connecting' | 'open' | 'waiting';
export type Listener = (message: Message) => void;

interface Entry {
  request: Request | LogRequest | Query;
  listener: (message: Message) => void;
  /** Called when it will never be answered. */
  cancel?: () => void;
}

/** An open topic; `close` may be called more than once. */
export interface Subscription {
  readonly id: number;
  close(): void;
}

export class Live extends Observable {
  #options: LiveOptions;
  #socket: Socket | null = null;
  #status: Status = 'waiting';
  #problem: Problem | null = null;
  #entries = new Map<number, Entry>();
  #number = 0;
  #attempt = 0;
  #answered = false;
  #shut = 0; // failed connections in a row while requests were answered
  #timer: ReturnType<typeof setTimeout> | undefined;
  #stops: (() => void)[] = [];
  #disposed = false;
  #lastMessage = 0; // when something came last

  constructor(options: LiveOptions) {
    super();
    this.#options = options;
  }

  /** The state of the connection. */
  get status(): Status {
    return this.#status;
  }

  /** Why there is none, as far as that is known. */
  get problem(): Problem | null {
    return this.#problem;
  }

  /** Open a topic; the first one connects, and closing the last one disconnects. */
  open(request: Request, listener: Listener): Subscription;
  open(request: LogRequest, listener: (message: LogMessage) => void): Subscription;
  open(request: Request | LogRequest, listener: unknown): Subscription {
    const id = this.#add({ request, listener: listener as Listener });
    return { id, close: () => this.#close(id) };
  }

  /**
   * Send a query, which is answered once.
   *
   * Throws a `ServerError` if the server refuses it; `signal` aborts it.
   */
  ask<Q extends Query>(request: Q, signal?: AbortSignal): Promise<Reply<Q>> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(aborted());
        return;
      }
      const over = () => {
        signal?.removeEventListener('abort', stop);
        this.#forget(id);
      };
      const stop = () => {
        over();
        reject(aborted());
      };
      const listener = (message: Message) => {
        over();
        if (message.kind === 'error') {
          reject(new ServerError(message.message, message.hint));
        } else {
          resolve(message as unknown as Reply<Q>);
        }
      };
      const id = this.#add({ request, listener, cancel: stop });
      signal?.addEventListener('abort', stop);
    });
  }

  /** Drop the connection, and connect again now. */
  reconnect(): void {
    if (this.#entries.size > 0) {
      this.#attempt = 0;
      this.#drop();
      this.#connect();
    }
  }

  dispose(): void {
    this.#disposed = true;
    const entries = [...this.#entries.values()];
    this.#entries.clear();
    entries.forEach(entry => entry.cancel?.());
    this.unsubscribeAll();
    this.#stop();
  }

  /** Send a request, now or once there is a connection; return its id. */
  #add(entry: Entry): number {
    if (this.#disposed) {
      throw new Error('This connection was disposed of.');
    }
    const id = ++this.#number;
    this.#entries.set(id, entry);
    if (this.#entries.size === 1) {
      this.#start();
    } else if (this.#status === 'open') {
      this.#send({ ...entry.request, id });
    }
    return id;
  }

  #close(id: number): void {
    if (this.#forget(id) && this.#status === 'open') {
      this.#send({ op: 'close', id });
    }
  }

  /** Deliver nothing more; return whether it was open. */
  #forget(id: number): boolean {
    const known = this.#entries.delete(id);
    if (known && this.#entries.size === 0) {
      this.#stop();
    }
    return known;
  }

  #start(): void {
    const again = () => this.reconnect();
    if (typeof window !== 'undefined') {
      window.addEventListener('online', again);
      this.#stops.push(() => window.removeEventListener('online', again));
    }
    // A proxy may forget a connection without closing it; then neither side hears of it.
    const silent = () => (this.#status === 'waiting' ? 0 : Date.now() - this.#lastMessage);
    this.#stops.push(onSilence(silent, this.#options.silence, again));
    this.#stops.push(onWake(again));
    this.#attempt = 0;
    this.#connect();
  }

  #stop(): void {
    this.#stops.splice(0).forEach(stop => stop());
    this.#drop();
    this.#problem = null;
    this.#set('waiting');
  }

  /** Abandon the socket, and the wait for the next one. */
  #drop(): void {
    clearTimeout(this.#timer);
    const socket = this.#socket;
    this.#socket = null;
    if (socket) {
      socket.onopen = socket.onclose = socket.onmessage = null;
      socket.close();
    }
  }

  #connect(): void {
    this.#lastMessage = Date.now();
    this.#set('connecting');
    let socket: Socket;
    try {
      const url = this.#options.url();
      socket = this.#options.connect?.(url) ?? (new WebSocket(url) as Socket);
    } catch {
      this.#lost();
      return;
    }
    this.#socket = socket;
    this.#answered = false;
    socket.onopen = () => {
      this.#set('open');
      for (const [id, { request }] of this.#entries) {
        this.#send({ ...request, id });
      }
    };
    socket.onclose = () => this.#lost();
    socket.onmessage = ({ data }) => this.#receive(data);
  }

  /** The connection ended, or was never made: find out why, and try again later. */
  #lost(): void {
    const answered = this.#answered;
    this.#drop();
    this.#set('waiting');
    const wait = backOff(this.#attempt++, this.#options.random);
    this.#timer = setTimeout(() => this.#connect(), wait);
    if (!answered) {
      void this.#diagnose();
    }
  }

  async #diagnose(): Promise<void> {
    const problem = await Promise.resolve(this.#options.probe?.()).catch(() => undefined);
    if (problem === undefined || this.#answered || this.#entries.size === 0) {
      return;
    }
    this.#shut = problem ? 0 : this.#shut + 1;
    this.#problem = this.#shut > 1 ? SHUT : problem; // the first time, the server may still be starting
    if (problem?.kind === 'missing' && this.#status === 'waiting') {
      clearTimeout(this.#timer); // the server has to be restarted first
      this.#timer = setTimeout(() => this.#connect(), MISSING_RETRY);
    }
    this.notify();
  }

  #receive(data: unknown): void {
    this.#lastMessage = Date.now();
    let message: Message;
    try {
      message = JSON.parse(String(data)) as Message;
    } catch {
      console.warn('jaxtrain: ignored a message that is not JSON');
      return;
    }
    if (!this.#answered) {
      this.#answered = true;
      this.#shut = 0;
      this.#attempt = 0; // retry fast only a server that has answered
      this.#problem = null;
      this.notify();
    }
    try {
      this.#entries.get(message.id)?.listener(message);
    } catch (error) {
      console.error('jaxtrain:', error);
    }
  }

  #send(message: Record<string, unknown>): void {
    this.#socket?.send(JSON.stringify(message));
  }

  #set(status: Status): void {
    if (status !== this.#status) {
      this.#status = status;
      this.notify();
    }
  }
}
