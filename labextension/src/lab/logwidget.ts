/** A log as a widget. It is loaded when the first log is opened: most pages never open one. */

import { h } from 'preact';

import type { Live } from '../core/base/live';
import type { LogHost } from '../core/base/loghost';
import { changeUsual, keepLook, recallLook, type Usual } from '../core/log/settings';
import { Reader } from '../core/log/reader';
import { LogStore } from '../core/log/store';
import { LogView } from '../core/log/view';
import type { Words } from '../core/base/translator';
import { ViewWidget } from './viewwidget';

/** The keys of the viewer act on its lines, so these get the focus, as soon as there are some. */
export class LogWidget extends ViewWidget {
  readonly store: LogStore;
  readonly reader: Reader;

  constructor(live: Live, key: string, words: Words, host: LogHost, usual: () => Usual) {
    const store = new LogStore(live, key);
    const reader = new Reader(store, words);
    recallLook(reader, host, usual());
    const stop = keepLook(reader, host, usual);
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

  /** Follow the settings where this log was not set otherwise. */
  changeUsual(before: Usual, now: Usual): void {
    changeUsual(this.reader, before, now);
  }

  protected override get first(): HTMLElement | null {
    return this.node.querySelector('.jaxtrain-log-list');
  }
}
