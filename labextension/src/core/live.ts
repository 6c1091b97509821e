/**
 * The one WebSocket to the server extension.
 *
 * What is opened stays open until it is closed, over as many sockets as that takes: after a
 * reconnect all of it is opened again under the same ids, in the same order. The server then
 * sends everything anew, with positions, so that nothing is shown twice. Messages of a socket
 * that was given up are never delivered.
 */

import type { Message, Problem, Request } from './protocol';
import { backOff, onWake } from './timers';

const SELDOM = 300_000;

/** What of a WebSocket is used. */
export interface Socket {
  onopen: (() => void) | null;
  onclose: (() => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  send(data: string): void;
  close(): void;
}

export interface LiveOptions {
  /** Where to connect to; asked at each attempt, since a token may have changed. */
  url: () => string;
  connect?: (url: string) => Socket;
  /** Finds out why there is no connection: a browser does not say. Null: it cannot tell. */
  probe?: () => Promise<Problem | null>;
  random?: () => number;
}

export type Status = 'connecting' | 'open' | 'waiting';
export type Listener = (message: Message) => void;

/** Something opened; `close` may be called more than once. */
export interface Opened {
  readonly id: number;
  close(): void;
}

export class Live {
  #options: LiveOptions;
  #socket: Socket | null = null;
  #status: Status = 'waiting';
  #problem: Problem | null = null;
  #opened = new Map<number, { request: Request; listener: Listener }>();
  #watchers = new Set<() => void>();
  #number = 0;
  #attempt = 0;
  #answered = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #stops: (() => void)[] = [];
  #disposed = false;

  constructor(options: LiveOptions) {
    this.#options = options;
  }

  /** Whether there is a connection now. */
  get status(): Status {
    return this.#status;
  }

  /** Why there is none, where that is known. */
  get problem(): Problem | null {
    return this.#problem;
  }

  /** Call `watcher` whenever status or problem have changed. */
  watch(watcher: () => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  /** Open something; the first one makes the connection, and the last one closed ends it. */
  open(request: Request, listener: Listener): Opened {
    if (this.#disposed) {
      throw new Error('This connection was disposed of.');
    }
    const id = ++this.#number;
    this.#opened.set(id, { request, listener });
    if (this.#opened.size === 1) {
      this.#start();
    } else if (this.#status === 'open') {
      this.#send({ ...request, id });
    }
    return { id, close: () => this.#close(id) };
  }

  /** Connect now, whatever there was. */
  reconnect(): void {
    if (this.#opened.size > 0) {
      this.#attempt = 0;
      this.#drop();
      this.#connect();
    }
  }

  dispose(): void {
    this.#disposed = true;
    this.#opened.clear();
    this.#watchers.clear();
    this.#stop();
  }

  #close(id: number): void {
    if (!this.#opened.delete(id)) {
      return;
    }
    if (this.#opened.size === 0) {
      this.#stop();
    } else if (this.#status === 'open') {
      this.#send({ op: 'close', id });
    }
  }

  #start(): void {
    const again = () => this.reconnect();
    if (typeof window !== 'undefined') {
      window.addEventListener('online', again);
      this.#stops.push(() => window.removeEventListener('online', again));
    }
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

  /** Give up the socket and what waits for the next one. */
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
      for (const [id, { request }] of this.#opened) {
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
      void this.#ask();
    }
  }

  async #ask(): Promise<void> {
    const problem = await Promise.resolve(this.#options.probe?.()).catch(() => undefined);
    if (problem === undefined || this.#answered || this.#opened.size === 0) {
      return;
    }
    this.#problem = problem;
    if (problem?.kind === 'missing' && this.#status === 'waiting') {
      clearTimeout(this.#timer); // a server has to be restarted for that
      this.#timer = setTimeout(() => this.#connect(), SELDOM);
    }
    this.#tell();
  }

  #receive(data: unknown): void {
    let message: Message;
    try {
      message = JSON.parse(String(data)) as Message;
    } catch {
      console.warn('jaxtrain: a message that is not JSON was left out');
      return;
    }
    if (!this.#answered) {
      this.#answered = true;
      this.#attempt = 0; // only a server that answers is worth a quick new attempt
      this.#problem = null;
      this.#tell();
    }
    try {
      this.#opened.get(message.id)?.listener(message);
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
      this.#tell();
    }
  }

  #tell(): void {
    for (const watcher of [...this.#watchers]) {
      watcher();
    }
  }
}
