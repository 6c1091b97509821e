/** What is said about logs over `Live` (docs/server.md), as types. */

/** Whose line: a rank's number, or the name of another container's log. */
export type Source = number | string;

/** What lines must have in them. */
export interface Pattern {
  pattern: string;
  regex: boolean;
  case: boolean;
}

/** Which lines of a log are shown; `sources` null means all ranks. */
export interface Choice {
  sources: Source[] | null;
  include: Pattern | null;
  exclude: Pattern | null;
  raw: boolean;
}

/** A line as the server sends it: position, source, time, text, bytes. */
export type RawLine = [number, Source | null, number | null, string, number];

/** Which logs a job has. */
interface Logs {
  id: number;
  kind: 'logs';
  name: string;
  logs: Source[];
}

export interface LogState {
  id: number;
  kind: 'log';
  length: number;
  complete: boolean;
  ended: boolean;
  began: number;
  open: Record<string, string>;
}

export interface Hits {
  id: number;
  kind: 'hits';
  count: number;
  complete: boolean;
  near: number[];
  /** The last hit up to where the search began, once no nearer one can be found. */
  before: number | null;
}

export interface Hit {
  id: number;
  kind: 'hit';
  position: number | null;
  index: number | null;
  number: number | null;
  count: number;
}

interface Marks {
  id: number;
  kind: 'marks';
  marks: [number, number][][];
}

interface Lines {
  id: number;
  kind: 'lines';
  start: number;
  lines: RawLine[];
}

export interface FullLine {
  id: number;
  kind: 'line';
  position: number;
  source: Source | null;
  time: number | null;
  text: string;
  /** How long it is; the text has at most the first MiB of it. */
  bytes: number;
}

export interface Found {
  id: number;
  kind: 'found';
  position: number | null;
  index: number | null;
  /** Whether that is sure: else not all lines were looked at. */
  complete: boolean;
}

/** What is opened, and answers until it is closed. */
export type LogRequest =
  | ({ op: 'open'; topic: 'log'; key: string } & Choice)
  | ({ op: 'search'; view: number; from: number } & Pattern);

export type LogMessage =
  Logs | LogState | Hits | { id: number; kind: 'error'; message: string; hint: string | null };

/** What is asked, and answered once. */
export type Question =
  | { op: 'lines'; view: number; start: number; count: number }
  | { op: 'line'; view: number; position: number }
  | { op: 'hit'; search: number; from: number; back: boolean }
  | { op: 'marks'; search: number; texts: string[] }
  | { op: 'find'; view: number; what: 'error' }
  | { op: 'find'; view: number; what: 'time'; time: number };

interface Answers {
  lines: Lines;
  line: FullLine;
  hit: Hit;
  marks: Marks;
  find: Found;
}

export type Answer<Q extends Question> = Answers[Q['op']];
