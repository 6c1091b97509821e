import { Notification } from '@jupyterlab/apputils';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { english } from '../../src/core/base/translator';
import type { CellWidget, Tracker } from '../../src/lab/cells';
import { LOAD, LoadHint } from '../../src/lab/loadhint';

class Text {
  constructor(public source: string) {}
  getSource(): string {
    return this.source;
  }
  updateSource(start: number, end: number, value = ''): void {
    this.source = this.source.slice(0, start) + value + this.source.slice(end);
  }
}

/** A notebook with cells of these texts, the first of which is the active one. */
function notebook(...sources: string[]) {
  const texts = sources.map(source => new Text(source));
  const widget = (text: Text) =>
    ({ readOnly: false, model: { type: 'code', sharedModel: text } }) as unknown as CellWidget;
  const tracker = {
    get activeCell() {
      return texts[0] ? widget(texts[0]) : null;
    },
    currentWidget: { content: { widgets: texts.map(widget) } }
  } as unknown as Tracker;
  return { texts, tracker };
}

afterEach(() => vi.restoreAllMocks());

describe('what has to be run before the first job', () => {
  it('is said once, and comes into a new cell', async () => {
    const info = vi.spyOn(Notification, 'info').mockReturnValue('');
    const { texts, tracker } = notebook('%%jaxtrain\nprint(1)');
    const insert = vi.fn(() => Promise.resolve(texts.unshift(new Text(''))));
    const hint = new LoadHint(tracker, english, insert);
    hint.notify();
    hint.notify();
    expect(info).toHaveBeenCalledTimes(1);
    expect(info.mock.calls[0]?.[0]).toBe(`Run ${LOAD} once in this notebook before its first job.`);
    info.mock.calls[0]?.[1]?.actions?.[0]?.callback(new MouseEvent('click'));
    await vi.waitFor(() => expect(texts[0]?.source).toBe(LOAD));
    expect(texts[1]?.source).toBe('%%jaxtrain\nprint(1)');
  });

  it('is not said where a cell has it', () => {
    const info = vi.spyOn(Notification, 'info').mockReturnValue('');
    const { tracker } = notebook('%%jaxtrain', 'import jax\n%load_ext jupyter_jax_trainer');
    new LoadHint(tracker, english, () => Promise.resolve()).notify();
    expect(info).not.toHaveBeenCalled();
  });
});
