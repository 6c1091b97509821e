/**
 * The one WebSocket to the server extension.
 *
 * What is opened stays open until it is closed, over as many sockets as that takes: after a
 * reconnect all of it is opened again under the same ids, in the same order. The server then
 * sends everything anew, with positions, so that nothing is shown twice. Messages of a socket
 * that was given up are never delivered. A question is kept until it is answered, and asked again
 * in its turn, so that what it is about is open by then.
 */

import { Refusal, withdrawn } from './errors';
import type { Answer, LogMessage, LogRequest, Question } from './logprotocol';
import type { Message, Problem, Request } from './protocol';
import { backOff, onSilence, onWake } from './reconnect';

const SELDOM = 300_000;
const SHUT: Problem = { kind: 'shut', message: '', hint: null };

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
  /** Finds out why there is no connection: a browser does not say. Null: requests are answered. */
  probe?: () => Promise<Problem | null>;
  random?: () => number;
  /** After how many silent milliseconds a connection is dead: that of a kernel may be silent. */
  silence?: number;
}

export type Status = 'connecting' | 'open' | 'waiting';
export type Listener = (message: Message) => void;

interface Entry {
  request: Request | LogRequest | Question;
  listener: (message: Message) => void;
  /** Called when it will never be answered. */
  gone?: () => void;
}

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
  #opened = new Map<number, Entry>();
  #watchers = new Set<() => void>();
  #number = 0;
  #attempt = 0;
  #answered = false;
  #shut = 0; // how often there was no connection, though requests were answered
  #timer: ReturnType<typeof setTimeout> | undefined;
  #stops: (() => void)[] = [];
  #disposed = false;
  #heard = 0; // when something came last

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
  open(request: Request, listener: Listener): Opened;
  open(request: LogRequest, listener: (message: LogMessage) => void): Opened;
  open(request: Request | LogRequest, listener: unknown): Opened {
    const id = this.#add({ request, listener: listener as Listener });
    return { id, close: () => this.#close(id) };
  }

  /**
   * Ask something that is answered once.
   *
   * It fails with a `Refusal` where the server says why it cannot be answered, and is withdrawn
   * by `signal`.
   */
  ask<Q extends Question>(request: Q, signal?: AbortSignal): Promise<Answer<Q>> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(withdrawn());
        return;
      }
      const over = () => {
        signal?.removeEventListener('abort', stop);
        this.#forget(id);
      };
      const stop = () => {
        over();
        reject(withdrawn());
      };
      const listener = (message: Message) => {
        over();
        if (message.kind === 'error') {
          reject(new Refusal(message.message, message.hint));
        } else {
          resolve(message as unknown as Answer<Q>);
        }
      };
      const id = this.#add({ request, listener, gone: stop });
      signal?.addEventListener('abort', stop);
    });
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
    const gone = [...this.#opened.values()];
    this.#opened.clear();
    gone.forEach(entry => entry.gone?.());
    this.#watchers.clear();
    this.#stop();
  }

  /** Say it, or keep it until there is a connection; give its id. */
  #add(entry: Entry): number {
    if (this.#disposed) {
      throw new Error('This connection was disposed of.');
    }
    const id = ++this.#number;
    this.#opened.set(id, entry);
    if (this.#opened.size === 1) {
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

  /** Deliver nothing more; say whether it was there. */
  #forget(id: number): boolean {
    const known = this.#opened.delete(id);
    if (known && this.#opened.size === 0) {
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
    // A proxy that forgot a connection does not say so, and then neither side hears of it.
    const silent = () => (this.#status === 'waiting' ? 0 : Date.now() - this.#heard);
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
    this.#heard = Date.now();
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
    this.#shut = problem ? 0 : this.#shut + 1;
    this.#problem = this.#shut > 1 ? SHUT : problem; // the first time it may be starting
    if (problem?.kind === 'missing' && this.#status === 'waiting') {
      clearTimeout(this.#timer); // a server has to be restarted for that
      this.#timer = setTimeout(() => this.#connect(), SELDOM);
    }
    this.#tell();
  }

  #receive(data: unknown): void {
    this.#heard = Date.now();
    let message: Message;
    try {
      message = JSON.parse(String(data)) as Message;
    } catch {
      console.warn('jaxtrain: a message that is not JSON was left out');
      return;
    }
    if (!this.#answered) {
      this.#answered = true;
      this.#shut = 0;
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
