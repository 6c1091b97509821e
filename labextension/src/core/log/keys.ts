import type { Words } from '../words';
import type { Reader } from './reader';

/** What a key does in the list of lines; `search` puts the focus into the field. */
export function act(key: string, reader: Reader, search: () => void): boolean {
  const page = reader.scroll.page;
  const acts: Partial<Record<string, () => unknown>> = {
    j: () => reader.move(1),
    ArrowDown: () => reader.move(1),
    k: () => reader.move(-1),
    ArrowUp: () => reader.move(-1),
    PageDown: () => reader.move(page),
    PageUp: () => reader.move(-page),
    Home: () => reader.goTo(0),
    End: () => reader.follow(),
    f: () => (reader.following ? reader.letGo() : reader.follow()),
    '/': search,
    n: () => reader.next(false),
    N: () => reader.next(true),
    e: () => reader.firstError(),
    t: () => reader.nextTimes(),
    w: () => reader.set({ wrap: !reader.wrap }),
    Enter: () => reader.openDetail(),
    ' ': () => reader.toggle(),
    ArrowRight: () => reader.toggle(reader.at, true),
    ArrowLeft: () => reader.toggle(reader.at, false),
    '?': () => reader.set({ help: !reader.help })
  };
  const found = Object.hasOwn(acts, key) ? acts[key] : undefined;
  if (found) {
    void found();
    return true;
  }
  return key === 'Escape' && close(reader);
}

/** Close what is open above the lines; say whether there was something. */
export function close(reader: Reader): boolean {
  if (reader.help) {
    reader.set({ help: false });
  } else if (reader.detail) {
    reader.set({ detail: null });
  } else {
    return false;
  }
  return true;
}

/** Give the keys with what they do. */
export function keyWords(words: Words): [string, string][] {
  return [
    ['j k ↓ ↑', words.__('next line, line before')],
    ['PageDown PageUp', words.__('next page, page before')],
    ['Home', words.__('first line')],
    ['End f', words.__('last line, and follow')],
    ['/', words.__('search')],
    ['n N', words.__('next match, match before')],
    ['e', words.__('first error')],
    ['t', words.__('time of day, since the start, none')],
    ['Space → ←', words.__('open or close a traceback')],
    ['Enter', words.__('the line in full')],
    ['w', words.__('wrap the line in full')],
    ['Esc', words.__('close')],
    ['?', words.__('these keys')]
  ];
}
