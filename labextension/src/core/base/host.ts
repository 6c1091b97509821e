/** What the views need of the page that they are in. */

import type { Source } from './logprotocol';
import type { Action, Row } from './protocol';
import type { Words } from './translator';

export interface MenuItem {
  label: string;
  /** What it does; without it the item is a line. */
  run?: () => void;
}

export interface Host {
  words: Words;
  /** Show a job in full. */
  open(row: Row): void;
  /** Do something to a job, after asking where it cannot be undone; says itself what went wrong. */
  act(row: Row, action: Action): void;
  copy(text: string): void;
  /** Show a menu at a place of the window. */
  menu(items: MenuItem[], x: number, y: number): void;

  // What a host may lack; a view leaves out what needs it.

  /** Ask the server extension for something; fails with an `ApiError` that says why not. */
  get?<T>(path: string): Promise<T>;
  /** Show what a rank has printed. */
  openLog?(key: string, rank?: number): void;
  /** Save a log as a file; without a source those of all ranks. */
  save?(key: string, source: Source | null): void;
  /** Show a notebook, at a cell where that is known. */
  openNotebook?(path: string, cell: string | null): void;
  /** Keep a small text under a name, for the next page, too. */
  remember?(name: string, value: string): void;
  /** Give what was kept under a name. */
  recall?(name: string): string | null;
}

/** Whether the results of a job are withheld, since somebody else submitted it. */
export function isWithheld({ trust }: Row): boolean {
  return trust === 'foreign' || trust === 'forbidden';
}

/** Give the key of an action's button: one that takes another's place keeps its focus. */
export function keyOf(action: Action): string {
  return action === 'resume' ? 'suspend' : action;
}

/** Give the word of an action. */
export function actionWord(action: Action, words: Words): string {
  return {
    cancel: words.__('Cancel'),
    delete: words.__('Delete'),
    suspend: words.__('Suspend'),
    resume: words.__('Resume'),
    detach: words.__('Detach'),
    trust: words.__('Trust results')
  }[action];
}
