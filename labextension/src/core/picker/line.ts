/** The round trip between a form and the `%%jaxtrain` line of a cell. */

import type { Api } from '../base/api';
import { type ServerError, toServerError } from '../base/errors';
import { Observable } from '../base/observable';
import { Draft, MAGIC, merged, NO_LINE } from './draft';
import { Inputs } from './inputs';
import type { Cell, Cells, CellState, Line, LineError, Values } from './types';

const PAUSE = 150; // milliseconds without a change before the server is asked

type Written = Line & { source: string };

/**
 * The line of the active cell, or a draft of one where the cell has none.
 *
 * The server decides what is valid. Only the answer to the latest request counts; a change stays
 * pending until it is answered.
 */
export class LineStore extends Observable {
  #api: Api;
  #cells: Cells;
  #unsubscribe: () => void;
  #cell: Cell | null = null;
  #source: string | null = null; // the cell's text when `#read` was parsed from it
  #read = NO_LINE;
  #before = NO_LINE; // what was shown before the cell became the active one
  #pending: Values = {};
  #inputs = new Inputs();
  #turn = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #asked: Promise<void> = Promise.resolve();
  #waiting = false;
  #shown = false;

  /** What the form says where the cell has no such line. */
  readonly draft = new Draft();
  /** Why the server could not be asked. */
  error: ServerError | null = null;

  constructor(api: Api, cells: Cells) {
    super();
    this.#api = api;
    this.#cells = cells;
    this.#unsubscribe = cells.subscribe(() => this.#onCell());
    this.draft.subscribe(() => this.#shown && !this.inCell && this.#schedule());
    this.#onCell();
  }

  /** Whether the picker is visible. Cells are not read while it is hidden. */
  get shown(): boolean {
    return this.#shown;
  }

  set shown(shown: boolean) {
    const began = shown && !this.#shown;
    this.#shown = shown;
    if (began) {
      void this.#ask();
    }
  }

  get state(): CellState {
    const cell = this.#cell;
    if (!cell) {
      return 'no-notebook';
    }
    if (!cell.code) {
      return 'no-code';
    }
    if (this.error) {
      return 'failed';
    }
    if (this.#source === null) {
      return 'reading';
    }
    if (!this.#read.found) {
      return 'no-line';
    }
    return Object.keys(this.#pending).length > 0 ? 'writing' : 'synced';
  }

  /** The active cell. */
  get cell(): Cell | null {
    return this.#cell;
  }

  /** Whether the form shows the line of the active cell, and not a draft. */
  get inCell(): boolean {
    return this.#read.found;
  }

  /** The line that the form shows: that of the cell (once it is read), or the draft. */
  get line(): Line {
    const shown = this.state === 'reading' ? this.#before : this.draft.line;
    return this.inCell ? this.#read : shown;
  }

  /** The values of the line, overridden by pending changes. */
  get values(): Values {
    return { ...this.line.values, ...this.#pending };
  }

  get errors(): LineError[] {
    return this.#inputs.errors(this.line.errors);
  }

  /** What was typed into a field, unless its value has changed since. */
  typed(name: string): string | undefined {
    return this.#inputs.text(name, this.line.values);
  }

  /** Change options; null takes one away. `typed` is what the user typed for it. */
  change(changes: Values, typed?: string): void {
    if (this.inCell && !this.#cell?.editable) {
      this.notify();
      return;
    }
    this.#pending = { ...this.#pending, ...changes };
    Object.keys(changes).forEach(name => this.#inputs.note(name, typed));
    this.#schedule();
    this.notify();
  }

  /** Put the draft into the active cell, which has no such line; tell whether it has one now. */
  async insert(): Promise<boolean> {
    if (!this.#shown) {
      await this.#ask();
    }
    await this.settle();
    const cell = this.#cell;
    if (!cell?.editable || this.state !== 'no-line' || this.errors.length > 0) {
      return this.inCell;
    }
    const { source } = cell;
    const turn = ++this.#turn;
    const body = { source: `${MAGIC}\n${source}`, changes: this.draft.values };
    const written = await this.#post<Written>('line/write', body);
    if (written && turn === this.#turn && cell.source === source) {
      this.draft.reset();
      this.#accept(cell, written);
    }
    this.notify();
    return this.inCell;
  }

  /** Ask again after something went wrong. */
  async again(): Promise<void> {
    await this.#ask();
  }

  /** Wait until the line says what the form says. */
  async settle(): Promise<void> {
    while (this.#waiting) {
      await (this.#timer === undefined ? this.#asked : this.#ask());
    }
  }

  dispose(): void {
    this.#stop();
    this.#unsubscribe();
  }

  #onCell(): void {
    const { cell } = this.#cells;
    const changed = cell !== this.#cell;
    if (changed) {
      this.#before = this.line;
      this.#leave();
      this.#stop();
      this.#cell = cell;
      this.#source = null;
      this.#read = NO_LINE;
      this.#inputs.forget();
    }
    if (this.#shown && cell?.code && cell.source !== this.#source) {
      this.#schedule();
    }
    if (changed) {
      this.notify();
    }
  }

  /** Write pending changes to the cell that is no longer active, or to the draft. */
  #leave(): void {
    const cell = this.#cell;
    const changes = this.#pending;
    this.#pending = {};
    if (!cell || !this.#read.found) {
      this.draft.values = merged(this.draft.values, changes);
    } else if (Object.keys(changes).length > 0) {
      const { source } = cell;
      void this.#post<Written>('line/write', { source, changes }).then(written => {
        if (written && cell.source === source && written.source !== source) {
          cell.write(written.source);
        }
      });
    }
  }

  #schedule(): void {
    this.#stop();
    this.#waiting = true;
    this.#timer = setTimeout(() => void this.#ask(), PAUSE);
  }

  #stop(): void {
    this.#turn++;
    this.#waiting = false;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #ask(): Promise<void> {
    this.#stop();
    this.#waiting = true;
    const turn = this.#turn;
    this.#asked = this.#exchange(turn).finally(() => {
      if (turn === this.#turn) {
        this.#waiting = false;
        this.notify();
      }
    });
    return this.#asked;
  }

  async #exchange(turn: number): Promise<void> {
    const cell = this.#cell?.code ? this.#cell : null;
    if (cell && cell.source !== this.#source) {
      const { source } = cell;
      const read = await this.#post<Line>('line/read', { source });
      if (!read || turn !== this.#turn) {
        return;
      }
      this.#source = source;
      this.#read = read;
      this.#inputs.forgetRefused();
    }
    const sent = this.#pending;
    if (!cell || !this.#read.found) {
      await this.#draw(turn, sent);
    } else if (Object.keys(sent).length > 0) {
      const { source } = cell;
      const written = await this.#post<Written>('line/write', { source, changes: sent });
      if (written && turn === this.#turn && cell.source === source) {
        this.#answered(sent, written);
        this.#accept(cell, written);
      }
    }
  }

  /** Ask what the draft looks like as a line. */
  async #draw(turn: number, sent: Values): Promise<void> {
    await this.draft.prepare(source => this.#post<Line>('line/read', { source }));
    if (turn !== this.#turn) {
      return;
    }
    const changes = merged(this.draft.values, sent);
    const body = { source: `${MAGIC}\n`, changes };
    const written = await this.#post<Written>('line/write', body);
    if (written && turn === this.#turn) {
      this.#answered(sent, written);
      this.draft.line = written;
      const refused = this.#inputs.refused;
      const kept = Object.entries(changes).filter(([name]) => !refused.has(name));
      this.draft.values = Object.fromEntries(kept);
    }
  }

  #answered(sent: Values, { values, errors }: Written): void {
    this.#pending = {}; // a change since then would have discarded this answer
    this.#inputs.answered(sent, values, errors);
  }

  #accept(cell: Cell, written: Written): void {
    this.#read = written;
    this.#source = written.source;
    if (cell.source !== written.source) {
      cell.write(written.source);
    }
  }

  /** Post to the server; return null on failure, with the reason in `error`. */
  async #post<T>(path: string, body: unknown): Promise<T | null> {
    try {
      const answer = await this.#api.post<T>(path, body);
      this.error = null;
      return answer;
    } catch (error) {
      this.error = toServerError(error);
      this.notify();
      return null;
    }
  }
}
