/** How somebody looks at a log: kept for the next time that this log is opened. */

import type { Host } from '../base/host';
import { keepFor, keptFor } from '../base/storage';
import type { Choice, Pattern } from '../base/logprotocol';
import type { Reader } from './reader';
import { TIMES, type Times } from './times';

const NAME = 'logs';
const PAUSE = 400; // milliseconds without a change before it is kept

/** How a log is looked at before anybody has said otherwise. */
export interface Usual {
  times: Times;
  wrap: boolean;
  raw: boolean;
}

export const USUAL: Usual = { times: 'clock', wrap: true, raw: false };

interface Look extends Usual, Choice {
  pattern: Pattern | null;
  /** The number of the line that one looks at; null: it follows. */
  at: number | null;
  /** When the job of that line began: there may be another one of its name by now. */
  began: number;
}

type Keeper = Pick<Host, 'remember' | 'recall'>;

function isPattern(value: unknown): value is Pattern {
  return typeof (value as Partial<Pattern> | null)?.pattern === 'string';
}

/** Look at a log as it was looked at last. */
export function recallLook(reader: Reader, host: Keeper, usual: Usual): void {
  const look = keptFor<Look>(host, NAME, reader.store.key);
  const { sources, include, exclude, pattern, at, began } = look;
  const { store } = reader;
  reader.times = TIMES.find(each => each === look.times) ?? usual.times;
  reader.wrap = look.wrap ?? usual.wrap;
  const choice: Choice = {
    sources: Array.isArray(sources) ? sources : null,
    include: isPattern(include) ? include : null,
    exclude: isPattern(exclude) ? exclude : null,
    raw: look.raw ?? usual.raw
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
    const stop = store.watch(() => {
      if (store.loaded) {
        stop();
        if (store.began !== began && reader.at === at) {
          reader.follow();
        }
      }
    });
  }
}

/** Keep how a log is looked at, whenever that changes; give what ends it. */
export function keepLook(reader: Reader, host: Keeper, usual: () => Usual): () => void {
  let last = JSON.stringify(lookOf(reader, usual()));
  let timer: ReturnType<typeof setTimeout> | undefined;
  const write = () => {
    clearTimeout(timer);
    timer = undefined;
    const look = lookOf(reader, usual());
    const text = JSON.stringify(look);
    if (text !== last) {
      last = text;
      keepFor(host, NAME, reader.store.key, look);
    }
  };
  const stop = reader.watch(() => (timer ??= setTimeout(write, PAUSE)));
  return () => {
    stop();
    write();
  };
}

/** Give what is not as usual, so that other usual values count for this log, too. */
function lookOf(reader: Reader, usual: Usual): Partial<Look> {
  const { times, wrap, pattern, at, following } = reader;
  const { began, choice } = reader.store;
  const { sources, include, exclude, raw } = choice;
  return {
    ...(times !== usual.times && { times }),
    ...(wrap !== usual.wrap && { wrap }),
    ...(raw !== usual.raw && { raw }),
    ...(sources && { sources }),
    ...(include && { include }),
    ...(exclude && { exclude }),
    ...((pattern.pattern || pattern.regex || pattern.case) && { pattern }),
    ...(!following && { at, began })
  };
}

/** Other values are usual now: follow them where nobody has said otherwise. */
export function changeUsual(reader: Reader, before: Usual, after: Usual): void {
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
