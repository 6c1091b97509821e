/** The active cell of the current notebook, for the picker. */

import { Observable } from '../core/base/observable';
import type { Cell, Cells } from '../core/picker/types';

interface Signal<Args> {
  connect(slot: (sender: unknown, args: Args) => void): boolean;
  disconnect(slot: (sender: unknown, args: Args) => void): boolean;
}

/** The part of a JupyterLab cell that is used. */
export interface CellWidget {
  readonly node: Node;
  readonly readOnly: boolean;
  readonly model: {
    readonly type: string;
    readonly sharedModel: {
      getSource(): string;
      updateSource(start: number, end: number, value?: string): void;
      readonly changed: Signal<{ sourceChange?: unknown }>;
    };
  };
}

interface Notebook {
  readonly widgets: readonly CellWidget[];
  activeCellIndex: number;
}

/** The part of JupyterLab's `INotebookTracker` that is used. */
export interface Tracker {
  readonly activeCell: CellWidget | null;
  readonly activeCellChanged: Signal<unknown>;
  readonly currentChanged: Signal<unknown>;
  readonly currentWidget: { readonly content: Notebook } | null;
}

/** A cell; changes go through its shared model, so they can be undone. */
class LabCell implements Cell {
  readonly widget: CellWidget;
  #tracker: Tracker;

  constructor(widget: CellWidget, tracker: Tracker) {
    this.widget = widget;
    this.#tracker = tracker;
  }

  get number(): number {
    const cells = this.#tracker.currentWidget?.content.widgets ?? [];
    return cells.indexOf(this.widget) + 1;
  }

  get code(): boolean {
    return this.widget.model.type === 'code';
  }

  get editable(): boolean {
    return !this.widget.readOnly;
  }

  get source(): string {
    return this.widget.model.sharedModel.getSource();
  }

  write(source: string): void {
    const before = this.source;
    if (!this.editable || source === before) {
      return;
    }
    const { start, end, text } = difference(before, source);
    this.widget.model.sharedModel.updateSource(start, end, text);
  }
}

/** Return the smallest replacement, so that a cursor elsewhere stays in place. */
function difference(before: string, after: string): { start: number; end: number; text: string } {
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && before[start] === after[start]) {
    start++;
  }
  start -= isSplit(before, start) || isSplit(after, start) ? 1 : 0;
  let same = 0;
  while (same < most - start && before.at(-1 - same) === after.at(-1 - same)) {
    same++;
  }
  const split = isSplit(before, before.length - same) || isSplit(after, after.length - same);
  same -= split ? 1 : 0;
  return { start, end: before.length - same, text: after.slice(start, after.length - same) };
}

/** Return whether a position is within a surrogate pair. */
function isSplit(text: string, at: number): boolean {
  return /[\ud800-\udbff]/.test(text[at - 1] ?? '') && /[\udc00-\udfff]/.test(text[at] ?? '');
}

/** Follows the current notebook. */
export class LabCells extends Observable implements Cells {
  #tracker: Tracker;
  #run: () => void;
  #cell: LabCell | null = null;
  #onActive = () => this.#follow();
  #onText = (_: unknown, { sourceChange }: { sourceChange?: unknown }) => {
    if (sourceChange) {
      this.notify();
    }
  };

  constructor(tracker: Tracker, run: () => void) {
    super();
    this.#tracker = tracker;
    this.#run = run;
    tracker.activeCellChanged.connect(this.#onActive);
    tracker.currentChanged.connect(this.#onActive);
    this.#follow();
  }

  get cell(): Cell | null {
    return this.#cell;
  }

  /** Activate the cell with this node. */
  goTo(node: Node): void {
    const notebook = this.#tracker.currentWidget?.content;
    const index = notebook?.widgets.findIndex(widget => widget.node === node) ?? -1;
    if (notebook && index >= 0) {
      notebook.activeCellIndex = index;
    }
  }

  run(): void {
    this.#run();
  }

  dispose(): void {
    this.#tracker.activeCellChanged.disconnect(this.#onActive);
    this.#tracker.currentChanged.disconnect(this.#onActive);
    this.#cell?.widget.model.sharedModel.changed.disconnect(this.#onText);
    this.#cell = null;
    this.unsubscribeAll();
  }

  #follow(): void {
    const widget = this.#tracker.activeCell;
    if (widget !== (this.#cell?.widget ?? null)) {
      this.#cell?.widget.model.sharedModel.changed.disconnect(this.#onText);
      this.#cell = widget && new LabCell(widget, this.#tracker);
      widget?.model.sharedModel.changed.connect(this.#onText);
      this.notify();
    }
  }
}
