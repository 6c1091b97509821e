import { vi } from 'vitest';

import { Live } from '../../src/core/base/live';
import type { RawLine } from '../../src/core/base/protocol';
import { LogStore } from '../../src/core/log/store';
import { NOW } from './make';
import { FakeSocket } from './socket';

/** What the server says first of a log without lines. */
export function emptyLog(id: unknown): object[] {
  const state = { length: 0, complete: true, ended: true, began: 0, open: {} };
  return [
    { id, kind: 'logs', name: 'mnist', logs: [0] },
    { id, kind: 'log', ...state }
  ];
}

/** A server with one log, as far as the pages ask. */
export class LogServer {
  readonly live: Live;
  readonly store: LogStore;
  #heard = 0;
  texts: string[] = [];
  /** How long each line is said to be; null: as long as its text. */
  bytes: number | null = null;
  source: (index: number) => number | null = index => index % 2;
  began = NOW - 100;
  ended = false;

  constructor() {
    FakeSocket.all = [];
    this.live = new Live({
      url: () => 'ws://server',
      connect: url => new FakeSocket(url),
      random: () => 0
    });
    this.store = new LogStore(this.live, 'mnist-4');
    FakeSocket.last.accept();
    this.say({ id: this.viewId, kind: 'logs', name: 'mnist', logs: [] });
  }

  /** All that was said so far, and not to be taken back. */
  get sent(): Record<string, unknown>[] {
    return FakeSocket.last.sent;
  }

  sentOf(op: string): Record<string, unknown>[] {
    return this.sent.filter(each => each['op'] === op);
  }

  get viewId(): number {
    return Number(this.sent.filter(each => each['topic'] === 'log').at(-1)?.['id']);
  }

  say(message: object): void {
    FakeSocket.last.say(message);
  }

  /** Let the log have these lines, and answer what is asked. */
  print(texts: string[], change: object = {}): void {
    this.texts = texts;
    this.state(change);
    this.answer();
  }

  state(change: object = {}): void {
    const { ended, began } = this;
    const length = this.texts.length;
    const state = { length, complete: true, ended, began, open: {}, ...change };
    this.say({ id: this.viewId, kind: 'log', ...state });
  }

  line(index: number): RawLine {
    const text = this.texts[index] ?? '';
    return [index, this.source(index), NOW - 90 + index, text, this.bytes ?? text.length];
  }

  /** Answer questions about lines until there are no more. */
  answer(): void {
    const socket = FakeSocket.last;
    for (; this.#heard < socket.sent.length; this.#heard++) {
      const { op, id, start, count, position } = socket.sent[this.#heard] ?? {};
      const from = Number(start);
      if (op === 'lines') {
        const end = Math.min(this.texts.length, from + Number(count));
        const lines = Array.from({ length: Math.max(0, end - from) }, (_, n) =>
          this.line(from + n)
        );
        this.say({ id, kind: 'lines', start: from, lines });
      } else if (op === 'line') {
        const [at, source, time, text, bytes] = this.line(Number(position));
        this.say({ id, kind: 'line', position: at, source, time, text, bytes });
      }
    }
  }

  /** Lose the connection, and have another. */
  reconnect(): void {
    this.live.reconnect();
    this.#heard = 0;
    FakeSocket.last.accept();
  }

  /** Let promises go on. */
  async settle(): Promise<void> {
    await vi.advanceTimersByTimeAsync(0);
    this.answer();
    await vi.advanceTimersByTimeAsync(0);
  }
}

export const many = (count: number) => Array.from({ length: count }, (_, n) => `line ${n}`);
