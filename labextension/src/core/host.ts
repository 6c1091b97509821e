/** What the views need of the page that they are in. */

import type { Action, Row } from './protocol';
import type { Words } from './words';

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
}

/** Give the word of an action. */
export function actionWord(action: Action, words: Words): string {
  return {
    cancel: words.__('Cancel'),
    delete: words.__('Delete'),
    suspend: words.__('Suspend'),
    resume: words.__('Resume')
  }[action];
}
