/** Places, runtimes and the line of a cell, as the server sends them (docs/reference/server.md). */

import type { Subscribable } from '../base/observable';
import type { Row } from '../base/protocol';

export interface Place {
  id: string;
  backend: string;
  cluster: boolean;
  runtime_prefix: string | null;
  context: string | null;
  namespace: string | null;
  label: string;
  current: boolean;
  problem: string | null;
  hint: string | null;
}

export type Level = 'ok' | 'warning' | 'error';

export interface Finding {
  level: Level;
  title: string;
  detail: string;
  hint: string | null;
}

export interface Runtime {
  name: string;
  backend: string;
  device: string;
  nodes: [number, number];
  description: string;
  python: string | null;
  jax: string | null;
  devices: number | null;
  image: string | null;
  deprecated: boolean;
  problem: string | null;
}

/** A queue of Kueue, and what is free in it; null where that may not be read. */
export interface Queue {
  name: string;
  problem: string | null;
  waiting: number;
  admitted: number;
  free: { flavor: string; resource: string; total: string; free: string }[] | null;
}

export interface Kueue {
  version: string | null;
  keeps_patches: boolean;
  queues: Queue[];
  priorities: { name: string; value: number | null; description: string | null }[];
}

/** How an option is entered. */
export type OptionKind = 'switch' | 'choice' | 'number' | 'duration' | 'names' | 'lines' | 'text';

export interface Option {
  name: string;
  flag: string;
  short: string | null;
  kind: OptionKind;
  /** The placeholder of a value; null for a switch. */
  metavar: string | null;
  help: string;
  choices: string[];
  group: string;
  cluster_only: boolean;
  repeated: boolean;
  /** Whether each cell of a session can have its own. */
  of_cell: boolean;
  default: unknown;
}

export interface LineError {
  /** The option that it is about; null where it is about the line as a whole. */
  option: string | null;
  value: unknown;
  message: string;
  hint: string | null;
}

/** Options by their names, as JSON. */
export type Values = Record<string, unknown>;

/** What a line asks for; null where that is for the runtime, or for this machine, to say. */
export interface Amounts {
  nodes: number;
  device: string | null;
  /** Devices of each node. */
  each: number | null;
  /** Amounts of all nodes together, in words. */
  rest: string[];
}

/** What the server reads in a cell. */
export interface Line {
  found: boolean;
  line: string;
  values: Values;
  errors: LineError[];
  /** Null where something is wrong with the line. */
  ask: Amounts | null;
}

/** A cell of a notebook. The same cell is always the same object. */
export interface Cell {
  /** Its place in the notebook, from 1. */
  readonly number: number;
  readonly code: boolean;
  readonly editable: boolean;
  readonly source: string;
  /** Return it another text, in one step that can be undone. */
  write(source: string): void;
}

/** All jobs; the picker offers the sessions among them. */
export interface Jobs extends Subscribable {
  readonly rows: readonly Row[];
}

/** The notebook that is in front; tells when the cell is another one, or has another text. */
export interface Cells extends Subscribable {
  /** The active cell; null where no notebook is open. */
  readonly cell: Cell | null;
  /** Run the active cell, as the user would. */
  run(): void;
  /**
   * Put a text into the next cell, where no active one is known; return words that say where it
   * is. It fails in words for the user.
   */
  put?(text: string): Promise<string>;
}

/** The state of the active cell, and whether form and line are in sync. */
export type CellState =
  | 'no-notebook' // no notebook is open
  | 'no-code' // the cell is not a code cell
  | 'reading' // its line is being read
  | 'no-line' // it has no such line
  | 'writing' // a change of the form is being written to the line
  | 'synced' // form and line are the same
  | 'failed'; // they may differ, since the server could not be asked
