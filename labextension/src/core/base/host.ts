/** The page that views are in: what it can do for them. */

import type { Action, Row, Source } from './protocol';
import type { Translator } from './translator';

export interface MenuItem {
  label: string;
  /** What the item does; an item without it is a separator. */
  run?: () => void;
}

export interface Host {
  trans: Translator;
  /** Show a job in full. */
  open(job: Pick<Row, 'key' | 'name'>): void;
  /** Do something to a job, after a confirmation where it needs one; reports errors itself. */
  act(row: Row, action: Action): void;
  copy(text: string): void;
  /** Show a menu at a point of the window. */
  menu(items: MenuItem[], x: number, y: number): void;

  // Optional: views leave out what needs them.

  /** Send a GET request to the server extension; throws a `ServerError`. */
  get?<T>(path: string): Promise<T>;
  /** Show the log of a job, or of one rank. */
  openLog?(key: string, rank?: number): void;
  /** Save a log as a file; without a source the logs of all ranks. */
  save?(key: string, source: Source | null): void;
  /** Save what a rank has recorded for a profile, as a file for ui.perfetto.dev. */
  saveTrace?(key: string, profile: string, rank: number): void;
  /** Show a profile of a job in XProf. */
  openXprof?(key: string, profile: string): void;
  /** Return the address of a page that opens this log at a line. */
  link?(key: string, position: number, source: Source | null): string;
  /** Open a notebook, at a cell if one is given. */
  openNotebook?(path: string, cell: string | null): void;
  /** Store a short text under a name, for later pages too. */
  setItem?(name: string, value: string): void;
  /** Return what is stored under a name. */
  getItem?(name: string): string | null;
}
