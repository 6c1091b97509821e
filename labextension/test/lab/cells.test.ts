import { createStandaloneCell, type YCodeCell } from '@jupyter/ydoc';
import { beforeEach, describe, expect, it, vi } from 'vitest';

import { type CellWidget, LabCells, type Tracker } from '../../src/lab/cells';

/** A signal of Lumino, as far as it is used. */
class FakeSignal {
  slots: ((sender: unknown, args: unknown) => void)[] = [];

  connect(slot: (sender: unknown, args: unknown) => void): boolean {
    this.slots.push(slot);
    return true;
  }

  disconnect(slot: (sender: unknown, args: unknown) => void): boolean {
    this.slots = this.slots.filter(each => each !== slot);
    return true;
  }

  emit(): void {
    this.slots.forEach(slot => slot(null, null));
  }
}

let code: YCodeCell;
let title: ReturnType<typeof createStandaloneCell>;
let widgets: CellWidget[];
let tracker: Tracker & { activeCell: CellWidget | null; activeCellChanged: FakeSignal };
let cells: LabCells;
const run = vi.fn();

/** Make widgets of two real shared cells, and follow the first one. */
beforeEach(() => {
  // It reads what is not part of a document yet, and says so.
  const quiet = vi.spyOn(console, 'warn').mockReturnValue(undefined);
  const source = '%%jaxtrain -n 2\nprint(1)\n';
  code = createStandaloneCell({ cell_type: 'code', source }) as YCodeCell;
  title = createStandaloneCell({ cell_type: 'markdown', source: '# Title' });
  quiet.mockRestore();
  code.clearUndoHistory();
  widgets = [code, title].map(sharedModel => ({
    node: new EventTarget() as Node,
    readOnly: false,
    model: { type: sharedModel.cell_type, sharedModel }
  }));
  tracker = {
    activeCell: widgets[0] ?? null,
    activeCellChanged: new FakeSignal(),
    currentChanged: new FakeSignal(),
    currentWidget: { content: { widgets, activeCellIndex: 0 } }
  };
  cells = new LabCells(tracker, run);
});

describe('the active cell', () => {
  it('is what the notebook has, and the same object for as long', () => {
    const { cell } = cells;
    expect(cell).toMatchObject({ number: 1, code: true, editable: true });
    expect(cell?.source).toBe('%%jaxtrain -n 2\nprint(1)\n');
    tracker.activeCellChanged.emit();
    expect(cells.cell).toBe(cell);
    tracker.activeCell = widgets[1] ?? null;
    tracker.activeCellChanged.emit();
    expect(cells.cell).toMatchObject({ number: 2, code: false, source: '# Title' });
    tracker.activeCell = null;
    tracker.activeCellChanged.emit();
    expect(cells.cell).toBeNull();
  });

  it('is the one of an element from then on', () => {
    cells.goTo(widgets[1]?.node ?? (new EventTarget() as Node));
    expect(tracker.currentWidget?.content.activeCellIndex).toBe(1);
    cells.goTo(new EventTarget() as Node);
    expect(tracker.currentWidget?.content.activeCellIndex).toBe(1);
  });

  it('tells when its text is another one, and not of its outputs', () => {
    const listener = vi.fn();
    const unwatch = cells.subscribe(listener);
    code.setSource('print(2)');
    expect(listener).toHaveBeenCalledTimes(1);
    code.execution_count = 3;
    expect(listener).toHaveBeenCalledTimes(1);
    unwatch();
    code.setSource('print(3)');
    expect(listener).toHaveBeenCalledTimes(1);
  });

  it('tells nothing of a cell that was left, or when it is disposed of', () => {
    const listener = vi.fn();
    tracker.activeCell = widgets[1] ?? null;
    tracker.activeCellChanged.emit();
    cells.subscribe(listener);
    code.setSource('print(2)');
    expect(listener).not.toHaveBeenCalled();
    cells.dispose();
    title.setSource('# Other');
    expect(listener).not.toHaveBeenCalled();
    expect(tracker.activeCellChanged.slots).toEqual([]);
  });

  it('is run by the notebook itself', () => {
    cells.run();
    expect(run).toHaveBeenCalledTimes(1);
  });
});

describe('writing', () => {
  it.each([
    ['%%jaxtrain -n 4 -d gpu\nprint(1)\n', 'a change within'],
    ['%%jaxtrain\nprint(1)\n', 'less'],
    ['%%jaxtrain -n 22\nprint(1)\n', 'the same sign twice'],
    ['', 'nothing'],
    ['%%jaxtrain -n 2\nprint("ü 🎉")\n', 'other signs']
  ])('gives the cell the text %j (%s), in one step that can be undone', text => {
    const before = cells.cell?.source;
    const listener = vi.fn();
    cells.subscribe(listener);
    cells.cell?.write(text);
    expect(code.getSource()).toBe(text);
    expect(listener).toHaveBeenCalledTimes(1);
    code.undo();
    expect(code.getSource()).toBe(before);
    code.redo();
    expect(code.getSource()).toBe(text);
  });

  it('does not take a sign of two halves apart', () => {
    code.setSource('%%jaxtrain 🎉 x');
    cells.cell?.write('%%jaxtrain 🎊 x');
    expect(code.getSource()).toBe('%%jaxtrain 🎊 x');
    cells.cell?.write('%%jaxtrain 🐊 x'); // the same second half
    expect(code.getSource()).toBe('%%jaxtrain 🐊 x');
  });

  it('touches no more than what differs', () => {
    const update = vi.spyOn(code, 'updateSource');
    cells.cell?.write('%%jaxtrain -n 4\nprint(1)\n');
    cells.cell?.write('%%jaxtrain -n 4\nprint(1)\n');
    expect(update.mock.calls).toEqual([[14, 15, '4']]);
  });

  it('leaves a cell alone that is read-only', () => {
    Object.assign(widgets[0] ?? {}, { readOnly: true });
    cells.cell?.write('x');
    expect(code.getSource()).toBe('%%jaxtrain -n 2\nprint(1)\n');
  });
});
