/** What the panel shows now, and what its views may do. */

import { ApiError, type Api } from '../core/base/api';
import { plain } from '../core/base/format';
import type { MenuItem } from '../core/base/host';
import type { Live } from '../core/base/live';
import type { LogHost } from '../core/base/loghost';
import { Refusal } from '../core/base/errors';
import type { Source } from '../core/base/logprotocol';
import type { Cells } from '../core/picker/types';
import type { Action, Row } from '../core/base/protocol';
import { questionOf, type Question } from '../core/base/actions';
import { Teller } from '../core/base/observable';
import { english } from '../core/base/translator';
import { copy } from './copy';
import { logText } from './logtext';

export type Place =
  | { kind: 'home' }
  | { kind: 'job'; key: string; name: string }
  | { kind: 'log'; key: string; rank: number | null };

interface Popup {
  items: MenuItem[];
  x: number;
  y: number;
}

export class PanelStore extends Teller implements LogHost {
  readonly words = english;
  readonly copy = copy;
  #api: Api;
  #live: Live;
  #places: Place[] = [{ kind: 'home' }];

  /** What is to be answered before something is done. */
  asked: { row: Row; action: Action; question: Question } | null = null;
  trouble: { message: string; hint: string | null } | null = null;
  popup: Popup | null = null;

  constructor(api: Api, live: Live) {
    super();
    this.#api = api;
    this.#live = live;
  }

  get place(): Place {
    return this.#places.at(-1) ?? { kind: 'home' };
  }

  open(row: Row): void {
    this.#go({ kind: 'job', key: row.key, name: plain(row.name) });
  }

  openLog(key: string, rank?: number): void {
    this.#go({ kind: 'log', key, rank: rank ?? null });
  }

  back(): void {
    this.#places.pop();
    this.#change({});
  }

  act(row: Row, action: Action): void {
    const question = questionOf(row, action, this.words);
    if (question) {
      this.#change({ asked: { row, action, question } });
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
    this.#change({ trouble: null });
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
      const { message, hint } =
        error instanceof ApiError || error instanceof Refusal
          ? error
          : new ApiError(String(error), null);
      this.#change({ trouble: { message, hint } });
    }
  }

  #go(place: Place): void {
    this.#places.push(place);
    this.#change({ popup: null });
  }

  #change(change: Partial<Pick<PanelStore, 'asked' | 'trouble' | 'popup'>>): void {
    Object.assign(this, change);
    this.tell();
  }
}

/** A widget knows no active cell: a line goes into the next one, by way of the kernel. */
export function nextCell(api: Api): Cells {
  return {
    cell: null,
    watch: () => () => {},
    run: () => {},
    put: async text => {
      const { when } = await api.post<{ when?: string }>('next-cell', { source: text });
      return when ?? '';
    }
  };
}
