import type { Words } from '../base/translator';
import type { Reader } from './reader';
import { firstError } from './seek';

/** What keys do that is not the reader's: they move the focus, or leave the page. */
export interface Ways {
  /** Put the focus into the field of the search. */
  search: () => void;
  /** Put the focus into the field for a number or a time. */
  place: () => void;
  copy: (text: string) => void;
  /** Copy a link to the line, where the host has links. */
  link?: () => void;
}

/** What a key does in the list of lines. */
export function act(key: string, reader: Reader, ways: Ways): boolean {
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
    '/': ways.search,
    g: ways.place,
    l: ways.link,
    n: () => reader.next(false),
    N: () => reader.next(true),
    e: () => firstError(reader),
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

/** Give the keys with what they do; those of a field are said to be there. */
export function keyWords(words: Words): [string, string][] {
  return [
    ['j k ↓ ↑', words.__('next line, line before')],
    ['PageDown PageUp', words.__('next page, page before')],
    ['Home', words.__('first line')],
    ['End', words.__('last line, and follow')],
    ['f', words.__('follow, or stop to follow')],
    ['g', words.__('go to a line or a time')],
    ['/', words.__('search')],
    ['n N', words.__('next match, match before')],
    ['Enter Shift+Enter', words.__('the same, while you type what to search')],
    ['e', words.__('first error')],
    ['t', words.__('time of day, since the start, none')],
    ['Space → ←', words.__('open or close a traceback')],
    ['Enter', words.__('the line in full')],
    ['w', words.__('wrap the line in full')],
    ['l', words.__('copy a link to the line')],
    ['Shift+↓ Shift+↑', words.__('choose lines, as Shift with a click does')],
    ['Ctrl+C', words.__('copy the chosen lines as plain text')],
    ['Esc', words.__('close; in a field: back to the lines')],
    ['?', words.__('these keys')]
  ];
}
