/** The state of the picker: places with their health and runtimes, the options, and the line of a cell. */

import type { Api } from '../base/api';
import { ServerError, toServerError } from '../base/errors';
import { Observable } from '../base/observable';
import { isWithheld } from '../base/actions';
import type { Problem, Row } from '../base/protocol';
import { doubled } from '../base/reconnect';
import { LineStore } from './line';
import {
  changesForPlace,
  changesForRuntime,
  changesForSession,
  namespaceOf,
  placeOf
} from './places';
import type { Cells, Finding, Jobs, Kueue, Option, Place, Runtime } from './types';

const MAX_AGE = 60_000; // milliseconds after which a place is requested again
// Milliseconds after which requests without an answer are repeated: the first time, and at most.
const FIRST_PAUSE = 5_000;
const LONGEST_PAUSE = 300_000;

function keyOf(place: Place, namespace: string | null): string {
  return JSON.stringify([place.id, namespace]);
}

/** The answer to a GET request: the last value, or why there is none. */
export class Resource<T> {
  #api: Api;
  #field: string;
  #changed: () => void;
  #latest = 0;

  value: T | null = null;
  error: ServerError | null = null;
  loading = false;
  /** When it was last requested, in milliseconds; 0 before that. */
  requested = 0;

  /** Whether the last request had no answer. */
  get unanswered(): boolean {
    return this.error?.transient === true;
  }

  /** `field` is the one to take from the answer. */
  constructor(api: Api, field: string, changed: () => void) {
    this.#api = api;
    this.#field = field;
    this.#changed = changed;
  }

  /** Request it (again); only the answer to the latest request counts. */
  async load(path: string): Promise<void> {
    const request = ++this.#latest;
    this.loading = true;
    this.requested = Date.now();
    this.#changed();
    let value: T | null = null;
    let failure: ServerError | null = null;
    try {
      value = (await this.#api.get<Record<string, T>>(path))[this.#field] ?? null;
    } catch (error) {
      failure = toServerError(error);
    }
    if (request === this.#latest) {
      this.value = value ?? this.value;
      this.error = failure;
      this.loading = false;
      this.#changed();
    }
  }
}

/** A namespace of a place: its health, runtimes and queues. */
export class PlaceView {
  readonly key: string;
  readonly health: Resource<Finding[]>;
  readonly runtimes: Resource<Runtime[]>;
  readonly queues: Resource<Kueue>;
  readonly cluster: boolean;
  #api: Api;
  #changed: () => void;
  #query: string;
  #yaml = new Map<string, Resource<string>>();

  constructor(api: Api, place: Place, namespace: string | null, changed: () => void) {
    this.#api = api;
    this.#changed = changed;
    this.key = keyOf(place, namespace);
    const other = namespace !== null && namespace !== place.namespace;
    const within = other ? `&namespace=${encodeURIComponent(namespace)}` : '';
    this.#query = `?place=${encodeURIComponent(place.id)}${within}`;
    this.health = new Resource(api, 'findings', changed);
    this.runtimes = new Resource(api, 'runtimes', changed);
    this.queues = new Resource(api, 'kueue', changed);
    this.cluster = place.cluster;
  }

  /**
   * Whether the form can be shown below, and no answer will move it.
   *
   * The answers of a cluster have reserved space; this machine answers at once.
   */
  get settled(): boolean {
    return this.cluster || (this.runtimes.value ?? this.runtimes.error) !== null;
  }

  /** Load it, unless that was done lately. */
  load(): void {
    if (Date.now() - this.runtimes.requested > MAX_AGE) {
      this.#request(this.#query);
    }
  }

  /** Whether something about it had no answer. */
  get unanswered(): boolean {
    return this.#parts.some(each => each.unanswered);
  }

  /** Load it again, unless that is being done. */
  reload(): void {
    if (!this.#parts.some(each => each.loading)) {
      this.#request(this.#query);
    }
  }

  /** Load it again, past the server's cache. */
  refresh(): void {
    this.#request(`${this.#query}&fresh=1`);
  }

  get #parts(): readonly Resource<unknown>[] {
    return [this.health, this.runtimes, this.queues];
  }

  #request(query: string): void {
    void this.health.load(`health${query}`);
    void this.runtimes.load(`runtimes${query}`);
    if (this.cluster) {
      void this.queues.load(`queues${query}`);
    }
  }

  /** Return the manifest of a runtime, once it has been requested. */
  yaml(name: string): Resource<string> | undefined {
    return this.#yaml.get(name);
  }

  loadYaml(name: string): void {
    const yaml = this.#yaml.get(name) ?? new Resource<string>(this.#api, 'yaml', this.#changed);
    this.#yaml.set(name, yaml);
    void yaml.load(`runtimes/${encodeURIComponent(name)}/yaml${this.#query}`);
  }
}

export class PickerStore extends Observable {
  readonly line: LineStore;
  readonly places: Resource<Place[]>;
  readonly options: Resource<Option[]>;
  /** Why nothing can be shown. */
  problem: Problem | null = null;

  #api: Api;
  #cells: Cells;
  #jobs: Jobs;
  #views = new Map<string, PlaceView>();
  #stops: (() => void)[];
  #known = ''; // of the sessions
  #timer: ReturnType<typeof setTimeout> | undefined; // to repeat what had no answer
  #repeats = 0; // since all had one

  constructor(api: Api, cells: Cells, jobs: Jobs) {
    super();
    this.#api = api;
    this.#cells = cells;
    this.#jobs = jobs;
    const changed = () => this.#onChange();
    this.places = new Resource(api, 'places', changed);
    this.options = new Resource(api, 'options', changed);
    this.line = new LineStore(api, cells);
    this.#stops = [this.line.subscribe(changed), jobs.subscribe(() => this.#onJobs())];
  }

  /** Set whether the picker is visible; nothing is requested before it is. */
  show(shown: boolean): void {
    this.line.shown = shown;
    if (shown && Date.now() - this.places.requested > MAX_AGE) {
      void this.retry();
    }
  }

  /** Request places and options. */
  async retry(): Promise<void> {
    await Promise.all([this.places.load('places'), this.options.load('options')]);
    const error = this.places.error ?? this.options.error;
    const { message = '', hint = null } = error ?? {};
    this.problem = error && ((await this.#api.probe()) ?? { kind: 'other', message, hint });
    if (!error && this.line.error) {
      await this.line.again();
    }
    this.notify();
  }

  /** Request everything about the place again. */
  refresh(): void {
    void this.retry();
    this.view?.refresh();
  }

  /** Where the job of the line runs; null if it names a context that does not exist. */
  get place(): Place | null {
    return placeOf(this.line.values, this.places.value ?? []);
  }

  get namespace(): string | null {
    return namespaceOf(this.line.values, this.place);
  }

  /** The runtime that the line names, once it is known. */
  get runtime(): Runtime | undefined {
    const { runtime } = this.line.values;
    return this.view?.runtimes.value?.find(({ name }) => name === runtime);
  }

  /** The runtimes that the job may get: the one named in the line, else all of the place. */
  get candidates(): Runtime[] {
    const named = typeof this.line.values['runtime'] === 'string';
    const found = named ? this.runtime : this.view?.runtimes.value;
    return found ? [found].flat() : [];
  }

  /** What is known of the place. */
  get view(): PlaceView | null {
    const { place } = this;
    if (!place) {
      return null;
    }
    const namespace = namespaceOf(this.line.line.values, place);
    const key = keyOf(place, namespace);
    let view = this.#views.get(key);
    if (!view) {
      view = new PlaceView(this.#api, place, namespace, () => this.#onAnswer());
      this.#views.set(key, view);
    }
    return view;
  }

  /** The sessions in which the cell can run. */
  get sessions(): Row[] {
    return this.#jobs.rows.filter(row => row.session && row.active && !isWithheld(row));
  }

  /** The one that the line names; null if it names none, or one that has yet to start. */
  get session(): Row | null {
    const { session } = this.line.values;
    return this.sessions.find(({ name }) => name === session) ?? null;
  }

  /** Return whether the session has determined an option, which the line does not name. */
  isFixed({ name, of_cell: own }: Option): boolean {
    return this.session !== null && !own && (this.line.values[name] ?? null) === null;
  }

  /** Options of the line that do not apply where the job would run. */
  get inapplicable(): Option[] {
    const { values } = this.line;
    const here = this.place?.cluster === false;
    const options = this.options.value ?? [];
    return options.filter(
      ({ name, cluster_only: only }) => here && only && (values[name] ?? null) !== null
    );
  }

  choosePlace(place: Place): void {
    const places = this.places.value ?? [];
    const left = this.session ? { session: null } : {};
    this.line.change({ ...changesForPlace(place, this.line.values, places), ...left });
  }

  /** Run the cell in a session: its options count. */
  chooseSession({ name }: Row): void {
    const options = this.options.value ?? [];
    this.line.change(changesForSession(name, options, this.line.values));
  }

  /** Choose a namespace; empty for the one of the context. */
  chooseNamespace(namespace: string): void {
    const own = namespace === '' || namespace === this.place?.namespace;
    this.line.change({ namespace: own ? null : namespace }, namespace);
  }

  /** Choose a runtime by its name; null leaves it to the job. */
  chooseRuntime(name: string | null): void {
    this.line.change(changesForRuntime(name, this.place, this.line.values));
  }

  /** Run the active cell, once its line is in sync and has no errors. */
  async run(): Promise<void> {
    const { cell } = this.line;
    await this.line.settle();
    if (this.line.state === 'synced' && this.line.cell === cell && this.line.errors.length === 0) {
      this.#cells.run();
    }
  }

  /** Whether the line goes into the next cell, rather than into the active one. */
  get puts(): boolean {
    return this.#cells.put !== undefined;
  }

  /** Put the line into the next cell; return where that is, or throw a `ServerError`. */
  async put(): Promise<string> {
    await this.line.settle();
    const wrong = this.line.error ?? this.line.errors[0];
    if (wrong) {
      throw new ServerError(wrong.message, wrong.hint);
    }
    const text = `%%jaxtrain ${this.line.line.line}`.trim();
    return (await this.#cells.put?.(`${text}\n`)) ?? '';
  }

  dispose(): void {
    this.#stops.forEach(stop => stop());
    clearTimeout(this.#timer);
    this.line.dispose();
  }

  #onJobs(): void {
    const known = JSON.stringify([this.sessions, this.session?.key]);
    if (known !== this.#known) {
      this.#known = known;
      this.#onChange();
    }
  }

  #onChange(): void {
    const known = this.places.value && this.line.state !== 'reading';
    if (this.line.shown && known && !this.place?.problem) {
      this.view?.load();
    }
    this.#onAnswer();
  }

  /** Repeat after a while what had no answer: the network, the server or the cluster may be back. */
  #onAnswer(): void {
    if (!this.#unanswered && !this.view?.unanswered) {
      this.#repeats = 0;
    } else if (this.#timer === undefined && this.line.shown) {
      const pause = doubled(this.#repeats, FIRST_PAUSE, LONGEST_PAUSE);
      this.#timer = setTimeout(() => this.#repeat(), pause);
    }
    this.notify();
  }

  /** Whether the server itself did not answer. */
  get #unanswered(): boolean {
    const { places, options, line } = this;
    return places.unanswered || options.unanswered || line.error?.transient === true;
  }

  #repeat(): void {
    this.#timer = undefined;
    if (!this.line.shown) {
      return; // once it is shown again, the next answer sets a timer
    }
    this.#repeats++;
    if (this.#unanswered && !this.places.loading && !this.options.loading) {
      void this.retry();
    }
    if (this.view?.unanswered) {
      this.view.reload();
    }
  }
}
