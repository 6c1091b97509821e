/** What the picker shows: places, their health and runtimes, the options, and the line of a cell. */

import { ApiError, type Api } from '../base/api';
import type { Problem } from '../base/protocol';
import { Asked } from './resource';
import { LineStore } from './line';
import { changesForPlace, changesForRuntime, namespaceOf, placeOf } from './places';
import { Teller } from '../base/observable';
import type { Cells, Finding, Kueue, Option, Place, Runtime } from './types';

const FRESH = 60_000; // milliseconds for which what is known of a place is not asked again

function keyOf(place: Place, namespace: string | null): string {
  return JSON.stringify([place.id, namespace]);
}

/** What is known of a namespace of a place. */
export class PlaceView {
  readonly key: string;
  readonly health: Asked<Finding[]>;
  readonly runtimes: Asked<Runtime[]>;
  readonly queues: Asked<Kueue>;
  readonly cluster: boolean;
  #api: Api;
  #changed: () => void;
  #query: string;
  #yaml = new Map<string, Asked<string>>();

  constructor(api: Api, place: Place, namespace: string | null, changed: () => void) {
    this.#api = api;
    this.#changed = changed;
    this.key = keyOf(place, namespace);
    const other = namespace !== null && namespace !== place.namespace;
    const within = other ? `&namespace=${encodeURIComponent(namespace)}` : '';
    this.#query = `?place=${encodeURIComponent(place.id)}${within}`;
    this.health = new Asked(api, 'findings', changed);
    this.runtimes = new Asked(api, 'runtimes', changed);
    this.queues = new Asked(api, 'kueue', changed);
    this.cluster = place.backend === 'kubernetes';
  }

  /**
   * Whether the form can come below, and no answer will move it.
   *
   * What a cluster says has its room before it comes; this machine says at once what it has.
   */
  get settled(): boolean {
    return this.cluster || (this.runtimes.value ?? this.runtimes.trouble) !== null;
  }

  /** Ask what is there, unless that is known. */
  look(): void {
    if (Date.now() - this.runtimes.since > FRESH) {
      this.#ask(this.#query);
    }
  }

  /** Ask what is there now, whatever the server has heard a moment ago. */
  lookAgain(): void {
    this.#ask(`${this.#query}&fresh=1`);
  }

  #ask(query: string): void {
    void this.health.ask(`health${query}`);
    void this.runtimes.ask(`runtimes${query}`);
    if (this.cluster) {
      void this.queues.ask(`queues${query}`);
    }
  }

  /** Give a runtime as the cluster has it, once it was asked for. */
  yaml(name: string): Asked<string> | undefined {
    return this.#yaml.get(name);
  }

  askYaml(name: string): void {
    const asked = this.#yaml.get(name) ?? new Asked<string>(this.#api, 'yaml', this.#changed);
    this.#yaml.set(name, asked);
    void asked.ask(`runtimes/${encodeURIComponent(name)}/yaml${this.#query}`);
  }
}

export class PickerStore extends Teller {
  readonly line: LineStore;
  readonly places: Asked<Place[]>;
  readonly options: Asked<Option[]>;
  /** Why nothing can be shown. */
  problem: Problem | null = null;

  #api: Api;
  #cells: Cells;
  #views = new Map<string, PlaceView>();
  #unwatch: () => void;

  constructor(api: Api, cells: Cells) {
    super();
    this.#api = api;
    this.#cells = cells;
    const changed = () => this.#onChange();
    this.places = new Asked(api, 'places', changed);
    this.options = new Asked(api, 'options', changed);
    this.line = new LineStore(api, cells);
    this.#unwatch = this.line.watch(changed);
  }

  /** Say whether somebody looks; nothing is asked before. */
  show(shown: boolean): void {
    this.line.shown = shown;
    if (shown && Date.now() - this.places.since > FRESH) {
      void this.retry();
    }
  }

  /** Ask for what every place has. */
  async retry(): Promise<void> {
    await Promise.all([this.places.ask('places'), this.options.ask('options')]);
    const trouble = this.places.trouble ?? this.options.trouble;
    const { message = '', hint = null } = trouble ?? {};
    this.problem = trouble && ((await this.#api.probe()) ?? { kind: 'other', message, hint });
    if (!trouble && this.line.trouble) {
      await this.line.again();
    }
    this.tell();
  }

  /** Ask again for all that is known of the place. */
  lookAgain(): void {
    void this.retry();
    this.view?.lookAgain();
  }

  /** Where the line has its job run; null where it names a context that there is not. */
  get place(): Place | null {
    return placeOf(this.line.values, this.places.value ?? []);
  }

  get namespace(): string | null {
    return namespaceOf(this.line.values, this.place);
  }

  /** The runtime that the line names, once the place has told of it. */
  get runtime(): Runtime | undefined {
    const { runtime } = this.line.values;
    return this.view?.runtimes.value?.find(({ name }) => name === runtime);
  }

  /** The runtimes that the job may get: the one that the line names, else all of the place. */
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
      view = new PlaceView(this.#api, place, namespace, () => this.tell());
      this.#views.set(key, view);
    }
    return view;
  }

  /** Options of the line that mean nothing where the job would run. */
  get strays(): Option[] {
    const { values } = this.line;
    const here = this.place?.backend === 'local';
    const options = this.options.value ?? [];
    return options.filter(
      ({ name, kubernetes_only: only }) => here && only && (values[name] ?? null) !== null
    );
  }

  choosePlace(place: Place): void {
    this.line.change(changesForPlace(place, this.line.values));
  }

  /** Choose a namespace; nothing stands for the one of the context. */
  chooseNamespace(namespace: string): void {
    const own = namespace === '' || namespace === this.place?.namespace;
    this.line.change({ namespace: own ? null : namespace }, namespace);
  }

  /** Choose a runtime by its name; null leaves it to the job. */
  chooseRuntime(name: string | null): void {
    this.line.change(changesForRuntime(name, this.place, this.line.values));
  }

  /** Run the active cell, once its line says what the form says and nothing is wrong with it. */
  async run(): Promise<void> {
    const { cell } = this.line;
    await this.line.settle();
    if (this.line.state === 'step' && this.line.cell === cell && this.line.errors.length === 0) {
      this.#cells.run();
    }
  }

  /** Whether the line goes into the next cell, rather than into the active one. */
  get puts(): boolean {
    return this.#cells.put !== undefined;
  }

  /** Put the line into the next cell; give where it is, or throw why that did not work. */
  async put(): Promise<string> {
    await this.line.settle();
    const wrong = this.line.trouble ?? this.line.errors[0];
    if (wrong) {
      throw new ApiError(wrong.message, wrong.hint);
    }
    const text = `%%jaxtrain ${this.line.line.line}`.trim();
    return (await this.#cells.put?.(`${text}\n`)) ?? '';
  }

  dispose(): void {
    this.#unwatch();
    this.line.dispose();
  }

  #onChange(): void {
    const known = this.places.value && this.line.state !== 'unread';
    if (this.line.shown && known && !this.place?.problem) {
      this.view?.look();
    }
    this.tell();
  }
}
