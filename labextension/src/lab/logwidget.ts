/** A log as a widget. It is loaded lazily: most pages never open a log. */

import { h } from 'preact';

import type { Host } from '../core/base/host';
import type { Live } from '../core/base/live';
import type { Translator } from '../core/base/translator';
import { Reader } from '../core/log/reader';
import { applySettings, type LogSettings, restoreView, saveView } from '../core/log/settings';
import { LogStore } from '../core/log/store';
import { LogView } from '../core/log/view';
import { ViewWidget } from './viewwidget';

/** Keys act on the lines, so the list of lines gets the focus. */
export class LogWidget extends ViewWidget {
  readonly store: LogStore;
  readonly reader: Reader;

  constructor(live: Live, key: string, trans: Translator, host: Host, settings: () => LogSettings) {
    const store = new LogStore(live, key);
    const reader = new Reader(store, trans);
    restoreView(reader, host, settings());
    const stop = saveView(reader, host, settings);
    super(
      () => h(LogView, { reader, host }),
      () => {
        stop();
        reader.dispose();
        store.dispose();
      }
    );
    this.store = store;
    this.reader = reader;
  }

  /** Apply changed settings, except where this log has its own. */
  applySettings(before: LogSettings, now: LogSettings): void {
    applySettings(this.reader, before, now);
  }

  protected override get first(): HTMLElement | null {
    return this.node.querySelector('.jaxtrain-log-list');
  }
}
