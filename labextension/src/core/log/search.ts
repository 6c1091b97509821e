import { isAborted } from '../base/errors';
import type { Live, Subscription } from '../base/live';
import { Observable } from '../base/observable';
import type { Hit, Hits, LogMessage, Pattern } from '../base/protocol';
import { Expression, type Marker, type Span, textMarker } from './highlight';

/** The current hit. */
export interface CurrentHit {
  position: number;
  index: number;
  /** Which of the hits it is, from 1. */
  number: number;
}

/** What to do with the nearest hit: the first one from a position, or the last one before it. */
export interface Arrival {
  back: boolean;
  then: (at: CurrentHit) => void;
}

/** One search in one view, which continues as the log grows. */
export class Search extends Observable {
  #live: Live;
  #opened: Subscription;
  #from: number;
  #stop = new AbortController();
  #turn = 0;
  #arrival: Arrival | null;
  #marks: { readonly marker: Marker };

  readonly pattern: Pattern;
  count = 0;
  complete = false;
  error: string | null = null;
  at: CurrentHit | null = null;
  /** Positions of hits near the current one. */
  near: ReadonlySet<number> = new Set();

  /** Search from a position; `arrival` gets the nearest hit, once. */
  constructor(live: Live, view: number, pattern: Pattern, from: number, arrival: Arrival | null) {
    super();
    this.#live = live;
    this.#from = from;
    this.#arrival = arrival;
    this.pattern = pattern;
    const request = { op: 'search' as const, view, from, ...pattern };
    this.#opened = live.open(request, message => this.#take(message));
    this.#marks = pattern.regex
      ? new Expression(
          texts => this.#places(texts),
          () => this.notify()
        )
      : { marker: textMarker(pattern) };
  }

  /** Finds matches in lines; replaced when more are known. */
  get marker(): Marker {
    return this.#marks.marker;
  }

  /** Go to the next or previous hit; wraps around. */
  async next(back: boolean, from = this.at?.position ?? this.#from): Promise<CurrentHit | null> {
    this.#arrival = null;
    return await this.#hit(from, back);
  }

  dispose(): void {
    this.#stop.abort();
    this.#opened.close();
  }

  async #places(texts: string[]): Promise<readonly (readonly Span[])[]> {
    const request = { op: 'marks' as const, search: this.#opened.id, texts };
    return (await this.#live.ask(request, this.#stop.signal)).marks;
  }

  async #hit(from: number, back: boolean): Promise<CurrentHit | null> {
    const turn = ++this.#turn;
    let hit: Hit;
    try {
      const request = { op: 'hit' as const, search: this.#opened.id, from, back };
      hit = await this.#live.ask(request, this.#stop.signal);
    } catch (error) {
      if (!isAborted(error) && error instanceof Error) {
        this.error = error.message;
        this.notify();
      }
      return null;
    }
    const { position, index, number } = hit;
    if (turn !== this.#turn || position === null || index === null || number === null) {
      return null;
    }
    this.count = hit.count;
    this.at = { position, index, number };
    this.notify();
    return this.at;
  }

  #take(message: LogMessage): void {
    if (message.kind === 'error') {
      this.error = message.message;
      this.complete = true;
    } else if (message.kind === 'hits') {
      const finished = message.complete && !this.complete;
      this.count = message.count;
      this.complete = message.complete;
      this.near = new Set(message.near);
      if (this.#arrival && message.count > 0) {
        void this.#arrive(this.#arrival, message);
      } else if (message.complete && message.count === 0) {
        this.#arrival = null; // later hits must not scroll the log
      } else if (finished && this.at) {
        void this.#hit(this.at.position + 1, true); // earlier hits were found: its number has changed
      }
    } else {
      return;
    }
    this.notify();
  }

  async #arrive({ back, then }: Arrival, { near, before }: Hits): Promise<void> {
    const first = back ? (before ?? undefined) : near.find(position => position >= this.#from);
    if (first === undefined && !this.complete) {
      return; // there may be a nearer one that was not found yet
    }
    this.#arrival = null;
    const from = back ? this.#from + 1 : this.#from;
    const at = await (first === undefined ? this.#hit(from, back) : this.#hit(first + 1, true));
    if (at) {
      then(at);
    }
  }
}
