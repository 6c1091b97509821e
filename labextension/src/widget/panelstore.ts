/** The state of the panel, and the host of its views. */

import { type Confirmation, confirmationFor } from '../core/base/actions';
import type { Api } from '../core/base/api';
import { type ErrorInfo, toServerError } from '../core/base/errors';
import { sanitize } from '../core/base/format';
import type { Host, MenuItem } from '../core/base/host';
import type { Live } from '../core/base/live';
import { Observable } from '../core/base/observable';
import type { Action, Row, Source } from '../core/base/protocol';
import { english } from '../core/base/translator';
import type { Cells } from '../core/picker/types';
import { logText } from './logtext';
import { copy } from './page';

export type Place =
  | { kind: 'home' }
  | { kind: 'job'; key: string; name: string }
  | { kind: 'log'; key: string; rank: number | null };

interface Popup {
  items: MenuItem[];
  x: number;
  y: number;
}

export class PanelStore extends Observable implements Host {
  readonly trans = english;
  readonly copy = copy;
  #api: Api;
  #live: Live;
  #places: Place[] = [{ kind: 'home' }];

  /** The action that waits for a confirmation. */
  asked: { row: Row; action: Action; confirmation: Confirmation } | null = null;
  error: ErrorInfo | null = null;
  popup: Popup | null = null;

  constructor(api: Api, live: Live) {
    super();
    this.#api = api;
    this.#live = live;
  }

  get place(): Place {
    return this.#places.at(-1) ?? { kind: 'home' };
  }

  open({ key, name }: Pick<Row, 'key' | 'name'>): void {
    this.#go({ kind: 'job', key, name: sanitize(name) });
  }

  openLog(key: string, rank?: number): void {
    this.#go({ kind: 'log', key, rank: rank ?? null });
  }

  back(): void {
    this.#places.pop();
    this.#change({});
  }

  act(row: Row, action: Action): void {
    const confirmation = confirmationFor(row, action, this.trans);
    if (confirmation) {
      this.#change({ asked: { row, action, confirmation } });
    } else {
      void this.#act(row, action);
    }
  }

  answer(yes: boolean): void {
    const { asked } = this;
    this.#change({ asked: null });
    if (asked && yes) {
      void this.#act(asked.row, asked.action);
    }
  }

  menu(items: MenuItem[], x: number, y: number): void {
    this.#change({ popup: { items, x, y } });
  }

  closeMenu(): void {
    this.#change({ popup: null });
  }

  closeTrouble(): void {
    this.#change({ error: null });
  }

  get<T>(path: string): Promise<T> {
    return this.#api.get<T>(path);
  }

  save(key: string, source: Source | null): void {
    void this.#save(key, source);
  }

  async #act(row: Row, action: Action): Promise<void> {
    await this.#try(() => this.#api.act(row, action));
  }

  async #save(key: string, source: Source | null): Promise<void> {
    await this.#try(async () => {
      const text = await logText(this.#live, key, source);
      const link = document.createElement('a');
      link.href = URL.createObjectURL(new Blob([text], { type: 'text/plain' }));
      link.download = source === null ? `${key}.log` : `${key}-${source}.log`;
      link.click();
      URL.revokeObjectURL(link.href);
    });
  }

  async #try(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const { message, hint } = toServerError(error);
      this.#change({ error: { message, hint } });
    }
  }

  #go(place: Place): void {
    this.#places.push(place);
    this.#change({ popup: null });
  }

  #change(change: Partial<Pick<PanelStore, 'asked' | 'error' | 'popup'>>): void {
    Object.assign(this, change);
    this.notify();
  }
}

/** A widget knows no active cell: lines go into the next cell, through the kernel. */
export function nextCell(api: Api): Cells {
  return {
    cell: null,
    subscribe: () => () => {},
    run: () => {},
    put: async text => {
      const { when } = await api.post<{ when?: string }>('next-cell', { source: text });
      return when ?? '';
    }
  };
}
