/** The settings of log viewers, and the stored view of each log. */

import type { Choice, Pattern } from '../base/protocol';
import { type ItemStorage, loadItemFor, saveItemFor } from '../base/storage';
import { Throttle } from '../base/throttle';
import type { Reader } from './reader';
import { TIMES, type Times } from './times';

const NAME = 'logs';
const INTERVAL = 400; // milliseconds between two writes

/** What a log is shown with unless it is changed there. */
export interface LogSettings {
  times: Times;
  wrap: boolean;
  raw: boolean;
}

export const DEFAULTS: LogSettings = { times: 'clock', wrap: true, raw: false };

interface SavedView extends LogSettings, Choice {
  pattern: Pattern | null;
  /** The number of the current line; null while following. */
  at: number | null;
  /** When the job of that line started: there may be another one of its name by now. */
  began: number;
}

function isPattern(value: unknown): value is Pattern {
  return typeof (value as Partial<Pattern> | null)?.pattern === 'string';
}

/** Restore the stored view of a log. */
export function restoreView(reader: Reader, host: ItemStorage, settings: LogSettings): void {
  const saved = loadItemFor<SavedView>(host, NAME, reader.store.key);
  const { sources, include, exclude, pattern, at, began } = saved;
  const { store } = reader;
  reader.times = TIMES.find(each => each === saved.times) ?? settings.times;
  reader.wrap = saved.wrap ?? settings.wrap;
  const choice: Choice = {
    sources: Array.isArray(sources) ? sources : null,
    include: isPattern(include) ? include : null,
    exclude: isPattern(exclude) ? exclude : null,
    raw: saved.raw ?? settings.raw
  };
  if (JSON.stringify(choice) !== JSON.stringify(store.choice)) {
    store.choose(choice);
  }
  if (isPattern(pattern)) {
    reader.pattern = pattern;
    store.find(pattern);
  }
  if (typeof at === 'number') {
    reader.goTo(at);
    const stop = store.subscribe(() => {
      if (store.loaded) {
        stop();
        if (store.began !== began && reader.at === at) {
          reader.follow();
        }
      }
    });
  }
}

/** Store the view whenever it changes; return a function that ends that. */
export function saveView(
  reader: Reader,
  host: ItemStorage,
  settings: () => LogSettings
): () => void {
  let last = JSON.stringify(viewOf(reader, settings()));
  const write = () => {
    const view = viewOf(reader, settings());
    const text = JSON.stringify(view);
    if (text !== last) {
      last = text;
      saveItemFor(host, NAME, reader.store.key, view);
    }
  };
  const throttle = new Throttle(write, INTERVAL, { leading: false });
  const stop = reader.subscribe(() => throttle.request());
  return () => {
    stop();
    throttle.flush();
  };
}

/** Return what differs from the settings, so that a change of the settings applies to the rest. */
function viewOf(reader: Reader, settings: LogSettings): Partial<SavedView> {
  const { times, wrap, pattern, at, following } = reader;
  const { began, choice } = reader.store;
  const { sources, include, exclude, raw } = choice;
  return {
    ...(times !== settings.times && { times }),
    ...(wrap !== settings.wrap && { wrap }),
    ...(raw !== settings.raw && { raw }),
    ...(sources && { sources }),
    ...(include && { include }),
    ...(exclude && { exclude }),
    ...((pattern.pattern || pattern.regex || pattern.case) && { pattern }),
    ...(!following && { at, began })
  };
}

/** The settings have changed: apply them to what was not changed in this log. */
export function applySettings(reader: Reader, before: LogSettings, after: LogSettings): void {
  if (reader.times === before.times) {
    reader.times = after.times;
  }
  if (reader.wrap === before.wrap) {
    reader.wrap = after.wrap;
  }
  if (reader.store.choice.raw === before.raw && after.raw !== before.raw) {
    reader.show({ raw: after.raw });
  }
  reader.set({});
}
