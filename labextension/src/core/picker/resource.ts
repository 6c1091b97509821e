import { ApiError, type Api } from '../base/api';
import type { Trouble } from './types';

/** Give words for what went wrong with a request. */
export function troubleOf(error: unknown): Trouble {
  return error instanceof ApiError ? error : new ApiError(String(error), null);
}

/** Something that is asked of the server: what it said last, or why it could not. */
export class Asked<T> {
  #api: Api;
  #field: string;
  #changed: () => void;
  #turn = 0;

  value: T | null = null;
  trouble: Trouble | null = null;
  asking = false;
  /** When it was asked last, in milliseconds; 0 before that. */
  since = 0;

  /** `field` is the one of the answer that is wanted. */
  constructor(api: Api, field: string, changed: () => void) {
    this.#api = api;
    this.#field = field;
    this.#changed = changed;
  }

  /** Ask (again); of several answers the one to the last question counts. */
  async ask(path: string): Promise<void> {
    const turn = ++this.#turn;
    this.asking = true;
    this.since = Date.now();
    this.#changed();
    let value: T | null = null;
    let trouble: Trouble | null = null;
    try {
      value = (await this.#api.get<Record<string, T>>(path))[this.#field] ?? null;
    } catch (error) {
      trouble = troubleOf(error);
    }
    if (turn === this.#turn) {
      this.value = value ?? this.value;
      this.trouble = trouble;
      this.asking = false;
      this.#changed();
    }
  }
}
