/** The protocol between pages and the server extension (docs/reference/server.md), as types. */

/** A job whose files cannot be read is `damaged`. */
export type State =
  | 'Queued'
  | 'Pending'
  | 'Starting'
  | 'Running'
  | 'Suspended'
  | 'Succeeded'
  | 'Failed'
  | 'Cancelled'
  | 'damaged';

/** `detach` ends the wait of a cell, `profile` is for ranks that run, `restart` to `restore` for sessions. */
export type Action =
  | 'cancel'
  | 'delete'
  | 'suspend'
  | 'resume'
  | 'detach'
  | 'trust'
  | 'restart'
  | 'interrupt'
  | 'prolong'
  | 'save'
  | 'restore'
  | 'profile';

/** How far a job is trusted: results of `foreign` and `forbidden` ones are withheld. */
export type Trust = 'own' | 'signed' | 'granted' | 'foreign' | 'forbidden';

export interface Progress {
  step: number;
  total: number | null;
  fraction: number | null;
  metrics: Record<string, number>;
  time: number;
}

/** What a list shows of a session besides. */
export interface SessionState {
  /** Since when it has been idle; null while a cell runs. */
  idle_since: number | null;
  /** When it ends by itself; null while a cell runs, and for never. */
  idle_ends: number | null;
  /** The job of the cell that runs. */
  running: string | null;
  /** How many cells wait behind it. */
  waiting: number;
}

/** The session that runs a cell. */
export interface SessionOf {
  key: string;
  uid: string;
}

/** What a list shows of a job. Times are seconds since the epoch. */
export interface Row {
  key: string;
  name: string;
  uid: string | null;
  state: State;
  reason: string | null;
  hint: string | null;
  active: boolean;
  created: number;
  ended: number | null;
  elapsed: number | null;
  nodes: number;
  shape: string;
  backend: string;
  cluster: boolean;
  place: string;
  runtime: string | null;
  progress: Progress | null;
  notebook: string | null;
  cell: string | null;
  actions: Action[];
  /** Whether its ranks can say where they are. */
  where: boolean;
  /** Whether its ranks can be profiled while they run. */
  profiles: boolean;
  trust: Trust;
  /** Who created an attached job: as the job claims, or as the user's own signature confirms. */
  maker: string | null;
  /** Null for what is no session. */
  session: SessionState | null;
  /** Null for what is no cell of a session. */
  cell_of: SessionOf | null;
}

/** Ranks that are in one place. */
export interface PlaceGroup {
  ranks: number[];
  state: string;
  answered: boolean;
  cell: string | null;
  line: number | null;
  call: string | null;
  frame: string | null;
  seconds: number | null;
  process: string | null;
  memory: number | null;
}

/** Where the ranks of a job are, and why some could not be asked. */
export interface RankPlaces {
  groups: PlaceGroup[];
  notes: string[];
}

export interface Rank {
  rank: number;
  pid?: number | null;
  pod?: string | null;
  state: string;
  exit: number | null;
  restarts?: number;
  host?: string | null;
}

/** What fetches a data set or a model before the ranks start. */
export interface Initializer extends Omit<Rank, 'rank' | 'pid'> {
  name: string;
}

export interface Failure {
  rank: number | null;
  kind: string;
  message: string;
  exit: number | null;
  error?: unknown;
  others?: unknown;
  usage?: unknown;
}

/** A job's `state.json` (docs/reference/job-directory.md). */
export interface JobState {
  state: State;
  reason: string | null;
  hint: string | null;
  history: { state: State; time: number }[];
  ranks: Rank[];
  initializers?: Initializer[];
  progress: Progress | null;
  failure: Failure | null;
  results: { name: string; type?: string; size?: number; format?: string; error?: string }[] | null;
  profiles?: ProfileState[];
}

/** A profile of a job; not `whole` while ranks are waited for. */
export interface ProfileState {
  name: string;
  time: number;
  whole: boolean;
  ranks: { rank: number; files: Record<string, number> }[];
}

/** An operation of a compiled program, averaged over ranks; `rank` took `most` seconds. */
export interface SharedOperation {
  name: string;
  module: string;
  seconds: number;
  count: number;
  collective: boolean;
  most: number;
  rank: number;
}

/** What one line of a program holds on a device. */
export interface Allocation {
  where: string;
  device: string;
  size: number;
  count: number;
}

/** What the profile of one rank says. */
export interface RankSummary {
  rank: number;
  platform: string | null;
  devices: number;
  seconds: number;
  busy: number;
  collectives: number;
  operations: unknown[];
  allocations: Allocation[];
  cut: boolean;
  problem: string | null;
}

/** What a profile says. */
export interface ProfileSummary {
  name: string;
  bound: string | null;
  notes: string[];
  ranks: RankSummary[];
  operations: SharedOperation[];
  /** Whether XProf is installed where the server runs. */
  xprof: boolean;
}

/** A variable of a session, as of its last cell. */
export interface ShownVariable {
  name: string;
  kind: string;
  type: string;
  /** Bytes of an array, or of the arrays in a tree; null if there are none. */
  size: number | null;
  sharding: string | null;
  /** The most bytes that one device has of it. */
  device_size: number | null;
  /** The number of the cell that bound it last. */
  cell: number;
  /** Whether buffers of it are gone. */
  deleted: boolean;
  /** The ranks that have it; null for all. */
  ranks: number[] | null;
}

export interface ShownSave {
  time: number;
  names: string[];
}

/** What a session has. */
export interface SessionDetail {
  /** The jobs of the cells that wait. */
  waiting: string[];
  variables: ShownVariable[];
  restarts: number;
  /** The variables lost in the last restart. */
  lost: string[];
  /** When its variables were saved last, and which. */
  saved: ShownSave | null;
}

/** A session as it is now, with the memory of its ranks in bytes. */
export interface SessionLook {
  session: SessionDetail;
  memory: (number | null)[];
}

export interface Detail {
  row: Row;
  spec: Record<string, unknown>;
  line: string;
  plan: Record<string, unknown>;
  sent: { name: string; kind: string; type: string; size: number }[];
  state: JobState | null;
  logs: { source: number | string; label: string; size: number }[];
  code: string | null;
  /** The file that was run from a command line; null for a cell. */
  script: string | null;
  returns: boolean;
  /** Null for what is no session. */
  session: SessionDetail | null;
  /** Null where the ranks have said nothing of it. */
  spending: Spending | null;
  /** Null where the ranks have said nothing of it, or there is none. */
  compile_cache: CacheUse | null;
}

/** Where the time of a job goes, in seconds; `goodput` is the share of steps, from 0 to 1. */
export interface Spending {
  parts: Record<string, number>;
  goodput: number;
  late: LateRank[];
  functions: { name: string; count: number; seconds: number }[];
}

/** Hits and misses of the compile cache over all ranks, and the seconds it saved. */
export interface CacheUse {
  hits: number;
  misses: number;
  saved: number;
}

/** How late a rank comes to a step, in seconds. */
export interface LateRank {
  rank: number;
  step: number;
  host: number;
  late: number;
}

export interface Point {
  time: number;
  rank: number;
  step: number;
  total: number | null;
  values: Record<string, number>;
}

export interface JobEvent {
  time: number;
  kind: string;
  rank: number | null;
  message: string;
}

/** Where a line comes from: a rank's number, or the name of another container. */
export type Source = number | string;

/** One of the last lines of all ranks, oldest first: source, time, text. */
export type TailLine = [source: Source, time: number | null, text: string];

/** The content of the card of a job. */
export interface JobSummary {
  row: Row;
  /** What was sent to the job and returned from it, as text; empty for nothing. */
  sent: string;
  results: string;
  /** What else there is to know; not in notebooks of version 0.1. */
  pulse?: string;
  remarks?: string[];
  /** The metric that was reported last: steps and values; NaN and infinities are strings. */
  spark: { name: string; points: [number, number | string][] } | null;
  tail: TailLine[];
  /** Whether a cell waits for the job. */
  awaited: boolean;
  /** A note on that wait. */
  note: string | null;
  /** When the cell's session times out, if that is soon; missing in older notebooks. */
  idle_ends?: number | null;
}

/** A line in a plot of resources: a rank's, or one of all ranks; pairs of a time and a value. */
export interface CourseLine {
  rank: number | null;
  role: 'rank' | 'least' | 'median' | 'most';
  points: [time: number, value: number][];
}

/** How the ranks used a resource; in GiB, cores, MB a second, per cent or watts. */
export interface Course {
  name:
    'memory' | 'cpu' | 'device_memory' | 'gpu' | 'power' | 'received' | 'sent' | 'read' | 'written';
  limit: number | null;
  lines: CourseLine[];
}

/** What is used of the server's machine, or of its container: cores and bytes. */
export interface Here {
  id: number;
  kind: 'here';
  cpu: number | null;
  cores: number | null;
  used: number | null;
  limit: number | null;
}

export type Message =
  | { id: number; kind: 'jobs'; all: true; rows: Row[] }
  | { id: number; kind: 'jobs'; all: false; rows: Row[]; gone: string[]; now: number }
  | { id: number; kind: 'job'; detail: Detail }
  | { id: number; kind: 'metrics'; from: number; points: Point[] }
  | { id: number; kind: 'events'; from: number; events: JobEvent[] }
  | { id: number; kind: 'tail'; lines: TailLine[] }
  | Here
  | { id: number; kind: 'machine'; courses: Course[]; sparks: number[][] }
  | { id: number; kind: 'summary'; summary: JobSummary }
  | { id: number; kind: 'error'; message: string; hint: string | null };

/** A request of a page; `Live` adds the id. */
export type Request =
  { op: 'open'; topic: 'jobs' | 'here' } | { op: 'open'; topic: 'job' | 'summary'; key: string };

/** What went wrong, and what to do about it. */
export interface Problem {
  /** shut: requests are answered, but no WebSocket can be opened. */
  kind: 'missing' | 'refused' | 'unreachable' | 'shut' | 'other';
  message: string;
  hint: string | null;
}

// Logs

/** A text or a regular expression to find in lines. */
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
interface LogList {
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
  /** The last hit before the start of the search, once no nearer one can turn up. */
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
  /** Whether all lines were read; if not, a later answer may differ. */
  complete: boolean;
}

/** Opened once, and answered until it is closed. */
export type LogRequest =
  | ({ op: 'open'; topic: 'log'; key: string } & Choice)
  | ({ op: 'search'; view: number; from: number } & Pattern);

export type LogMessage =
  LogList | LogState | Hits | { id: number; kind: 'error'; message: string; hint: string | null };

/** Asked once, and answered once. */
export type Query =
  | { op: 'lines'; view: number; start: number; count: number }
  | { op: 'line'; view: number; position: number }
  | { op: 'hit'; search: number; from: number; back: boolean }
  | { op: 'marks'; search: number; texts: string[] }
  | { op: 'find'; view: number; what: 'error' }
  | { op: 'find'; view: number; what: 'time'; time: number };

interface Replies {
  lines: Lines;
  line: FullLine;
  hit: Hit;
  marks: Marks;
  find: Found;
}

export type Reply<Q extends Query> = Replies[Q['op']];
