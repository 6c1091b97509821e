import { Api } from '../../src/core/base/api';
import { Observable } from '../../src/core/base/observable';
import type { Row } from '../../src/core/base/protocol';
import { PickerStore } from '../../src/core/picker/store';
import type {
  Cell,
  Cells,
  Finding,
  Jobs,
  Kueue,
  LineError,
  Option,
  Place,
  Runtime,
  Values
} from '../../src/core/picker/types';

export class FakeCell implements Cell {
  number = 7;
  code = true;
  editable = true;
  writes = 0;
  source: string;
  changed: () => void = () => {};

  constructor(source: string) {
    this.source = source;
  }

  write(source: string): void {
    this.writes++;
    this.type(source);
  }

  /** Change it as the user does in the notebook. */
  type(source: string): void {
    this.source = source;
    this.changed();
  }
}

export class FakeCells implements Cells {
  cell: FakeCell | null = null;
  runs = 0;
  #listeners = new Set<() => void>();

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  run(): void {
    this.runs++;
  }

  activate(cell: FakeCell | null): void {
    this.cell = cell;
    if (cell) {
      cell.changed = () => this.#notify();
    }
    this.#notify();
  }

  #notify(): void {
    this.#listeners.forEach(listener => listener());
  }
}

/** An option as the server describes it; `change` says what is special about it. */
export function option(name: string, change: Partial<Option> = {}): Option {
  return {
    name,
    flag: `--${name}`,
    short: null,
    kind: 'text',
    metavar: 'NAME',
    help: `Help for ${name}.`,
    choices: [],
    group: 'The job',
    cluster_only: false,
    repeated: false,
    of_cell: false,
    default: null,
    ...change
  };
}

export const OPTIONS = [
  option('name', { of_cell: true }),
  option('nodes', { kind: 'number', metavar: 'N', default: 1 }),
  option('device', { kind: 'choice', metavar: '{cpu,gpu,tpu}', choices: ['cpu', 'gpu', 'tpu'] }),
  option('devices_per_node', { kind: 'number', metavar: 'K' }),
  option('runtime'),
  option('backend', { kind: 'choice', choices: ['auto', 'local', 'kubernetes'] }),
  option('env', { kind: 'lines', metavar: 'NAME=VALUE', repeated: true, default: {} }),
  option('out', {
    of_cell: true,
    kind: 'names',
    metavar: 'NAME[,NAME]',
    repeated: true,
    default: []
  }),
  option('timeout', { kind: 'duration', metavar: 'TIME' }),
  option('detach', { kind: 'switch', metavar: null, default: false }),
  option('context', { cluster_only: true }),
  option('namespace', { cluster_only: true }),
  option('queue', { cluster_only: true })
];

export function place(change: Partial<Place> = {}): Place {
  return {
    id: 'context:gke',
    backend: 'kubernetes',
    cluster: true,
    runtime_prefix: null,
    context: 'gke',
    namespace: 'team-a',
    label: 'team-a · gke',
    current: true,
    problem: null,
    hint: null,
    ...change
  };
}

export const HERE = place({
  id: 'local',
  backend: 'local',
  cluster: false,
  runtime_prefix: 'local-',
  context: null,
  namespace: null,
  label: 'this machine',
  current: false
});

export function runtime(change: Partial<Runtime> = {}): Runtime {
  return {
    name: 'jax-cpu',
    backend: 'kubernetes',
    device: 'cpu',
    nodes: [1, 32],
    description: 'JAX on CPUs',
    python: '3.12',
    jax: '0.10.2',
    devices: null,
    image: 'example.org/jax:1',
    deprecated: false,
    problem: null,
    ...change
  };
}

type Ask = { path: string; body: { source?: string; changes?: Values } };

/**
 * A server that knows lines of words like `--nodes=2`, of which `nodes` has to be a number.
 *
 * With `hold` set, answers wait for `release`.
 */
export class FakeServer {
  asked: Ask[] = [];
  places = [HERE, place(), place({ id: 'context:lab', context: 'lab', current: false })];
  findings: Finding[] = [{ level: 'ok', title: 'jax', detail: '0.10.2', hint: null }];
  runtimes: Runtime[] = [runtime(), runtime({ name: 'jax-gpu', device: 'gpu', nodes: [2, 2] })];
  kueue: Kueue | null = null;
  failing: string | null = null;
  /** The status of what fails. */
  status = 502;
  /** What becomes of what it says. */
  translate = <T>(said: T): T => said;
  /** Which questions are never answered. */
  silent: RegExp | null = null;
  hold = false;
  held: (() => void)[] = [];
  readonly api = new Api((path, init) => this.#answer(path, init?.body));

  /** The paths of what was asked, and what was to be changed. */
  get writes(): unknown[] {
    return this.asked.filter(({ path }) => path === 'line/write').map(({ body }) => body.changes);
  }

  count(path: string): number {
    return this.asked.filter(ask => ask.path === path).length;
  }

  async #answer(path: string, text = '{}'): Promise<Response> {
    const body = JSON.parse(text) as Ask['body'];
    this.asked.push({ path, body });
    const { failing } = this;
    if (this.hold) {
      await new Promise<void>(resolve => this.held.push(resolve));
    }
    if (this.silent?.test(path)) {
      await new Promise(() => {});
    }
    if (failing !== null && (failing === '' || path.startsWith(failing))) {
      const said = { message: 'The cluster says no.', hint: 'Ask for more.' };
      return new Response(JSON.stringify(this.translate(said)), { status: this.status });
    }
    return new Response(JSON.stringify(this.translate(this.#say(path, body))));
  }

  #say(path: string, { source = '', changes }: Ask['body']): unknown {
    switch (path.split('?')[0]) {
      case 'places':
        return { places: this.places };
      case 'options':
        return { options: OPTIONS };
      case 'health':
        return { findings: this.findings };
      case 'runtimes':
        return { runtimes: this.runtimes };
      case 'queues':
        return { kueue: this.kueue };
      case 'jobs':
        return { jobs: [] };
      case 'line/read':
        return read(source);
      case 'line/write':
        return write(source, changes ?? {});
      default:
        return { yaml: `kind: ClusterTrainingRuntime # ${path}` };
    }
  }
}

const LISTS = ['out', 'env'];

function read(source: string) {
  const found = /^%%jaxtrain(.*)/.exec(source);
  const line = (found?.[1] ?? '').trim();
  const values: Values = {};
  const errors: LineError[] = [];
  for (const word of line.split(' ').filter(Boolean)) {
    const [, name = '', value] = /^--([a-z_]+)(?:=(.*))?$/.exec(word) ?? [];
    if (name === 'nodes') {
      values[name] = Number(value);
    } else if (name === 'timeout') {
      values[name] = value === '90m' ? 5400 : 7200;
    } else if (name) {
      values[name] = LISTS.includes(name) ? (value ?? '').split(',') : (value ?? true);
    } else {
      errors.push({ option: null, value: word, message: `What is ${word}?`, hint: null });
    }
  }
  const nodes = Number(values.nodes ?? 1);
  const device = (values.device as string | undefined) ?? null;
  const ask = { nodes, device, each: null, rest: ['9 CPU'] };
  return { found: found !== null, line, values, errors, ask: found ? ask : null };
}

function write(source: string, changes: Values) {
  const errors: LineError[] = [];
  const [first = '', ...rest] = source.split('\n');
  let line = first;
  for (const [option, value] of Object.entries(changes)) {
    if (option === 'nodes' && value !== null && !Number.isInteger(Number(value))) {
      errors.push({ option, value, message: 'It takes a whole number.', hint: 'Such as 2.' });
      continue;
    }
    const given = typeof value === 'number' ? String(value) : value;
    const typed = typeof given === 'string' ? given.replaceAll(' ', '') : '';
    const text = Array.isArray(value) ? value.join() : typed;
    const word = value === null ? '' : value === true ? ` --${option}` : ` --${option}=${text}`;
    const old = new RegExp(` --${option}(=\\S*)?(?= |$)`);
    line = old.test(line) ? line.replace(old, word) : line + word;
  }
  const written = [line, ...rest].join('\n');
  const { errors: others, ...said } = read(written);
  return { source: written, ...said, errors: [...errors, ...others] };
}

/** The jobs that there are. */
export class FakeJobs extends Observable implements Jobs {
  rows: readonly Row[] = [];

  set(...rows: Row[]): void {
    this.rows = rows;
    this.notify();
  }
}

export interface Setup {
  server: FakeServer;
  cells: FakeCells;
  jobs: FakeJobs;
  store: PickerStore;
}

export function setUp(source: string | null): Setup {
  const server = new FakeServer();
  const cells = new FakeCells();
  cells.activate(source === null ? null : new FakeCell(source));
  const jobs = new FakeJobs();
  return { server, cells, jobs, store: new PickerStore(server.api, cells, jobs) };
}
