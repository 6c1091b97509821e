import type { ErrorInfo } from './errors';
import type { Live, Subscription } from './live';
import { Observable } from './observable';
import type { Message, Problem, Request } from './protocol';

/** The state of a topic, kept up to date until the store is disposed of. */
export abstract class LiveStore extends Observable {
  protected readonly live: Live;
  #request: Request;
  #opened: Subscription | null = null;
  #unsubscribe: () => void;
  /** Why the server cannot send the topic. */
  error: ErrorInfo | null = null;

  constructor(live: Live, request: Request) {
    super();
    this.live = live;
    this.#request = request;
    this.#unsubscribe = live.subscribe(() => this.notify());
    this.resume();
  }

  /** Close the topic until `resume`; the state stays. */
  pause(): void {
    this.#opened?.close();
    this.#opened = null;
  }

  /** Open the topic again. */
  resume(): void {
    this.#opened ??= this.live.open(this.#request, message => this.take(message));
  }

  /** Open the topic again after an error: there may be another job of this name by now. */
  refresh(): void {
    if (this.error) {
      const before = this.#opened;
      this.#opened = null;
      this.resume();
      before?.close(); // after the new one: closing the last topic ends the connection
    }
  }

  /** Whether the state is up to date. */
  get current(): boolean {
    return this.live.status === 'open';
  }

  get problem(): Problem | null {
    return this.live.problem;
  }

  /** Connect now instead of at the next attempt. */
  retry(): void {
    this.live.reconnect();
  }

  dispose(): void {
    this.#unsubscribe();
    this.pause();
  }

  protected abstract take(message: Message): void;
}
