import type { Translator } from '../base/translator';
import type { Reader } from './reader';

/** What keys do outside the reader: move the focus, or use the clipboard. */
export interface KeyActions {
  /** Focus the search field. */
  search: () => void;
  /** Focus the field for a line or a time. */
  place: () => void;
  copy: (text: string) => void;
  /** Copy a link to the line, if the host has links. */
  link?: () => void;
}

/** Handle a key in the list of lines; return whether it means something there. */
export function handleKey(key: string, reader: Reader, actions: KeyActions): boolean {
  const page = reader.scroll.page;
  const handlers: Partial<Record<string, () => unknown>> = {
    j: () => reader.move(1),
    ArrowDown: () => reader.move(1),
    k: () => reader.move(-1),
    ArrowUp: () => reader.move(-1),
    PageDown: () => reader.move(page),
    PageUp: () => reader.move(-page),
    Home: () => reader.goTo(0),
    End: () => reader.follow(),
    f: () => (reader.following ? reader.stopFollowing() : reader.follow()),
    '/': actions.search,
    g: actions.place,
    l: actions.link,
    n: () => reader.next(false),
    N: () => reader.next(true),
    e: () => reader.goToFirstError(),
    t: () => reader.nextTimes(),
    w: () => reader.set({ wrap: !reader.wrap }),
    Enter: () => reader.openDetail(),
    ' ': () => reader.toggle(),
    ArrowRight: () => reader.toggle(reader.at, true),
    ArrowLeft: () => reader.toggle(reader.at, false),
    '?': () => reader.set({ help: !reader.help })
  };
  const found = Object.hasOwn(handlers, key) ? handlers[key] : undefined;
  if (found) {
    void found();
    return true;
  }
  return key === 'Escape' && closePane(reader);
}

/** Close the help or the details; return whether one was open. */
export function closePane(reader: Reader): boolean {
  if (reader.help) {
    reader.set({ help: false });
  } else if (reader.detail) {
    reader.set({ detail: null });
  } else {
    return false;
  }
  return true;
}

/** Return the keys and what they do. */
export function keyHelp(trans: Translator): [string, string][] {
  return [
    ['j k ↓ ↑', trans.__('next line, previous line')],
    ['PageDown PageUp', trans.__('next page, previous page')],
    ['Home', trans.__('first line')],
    ['End', trans.__('last line, and follow')],
    ['f', trans.__('start or stop following')],
    ['g', trans.__('go to a line or a time')],
    ['/', trans.__('search')],
    ['n N', trans.__('next match, previous match')],
    ['Enter Shift+Enter', trans.__('the same, in the search field')],
    ['e', trans.__('first error')],
    ['t', trans.__('timestamps: time of day, since start, none')],
    ['Space → ←', trans.__('open or close a traceback')],
    ['Enter', trans.__('show the full line')],
    ['w', trans.__('wrap the full line')],
    ['l', trans.__('copy a link to the line')],
    ['Shift+↓ Shift+↑', trans.__('select lines, as Shift+click does')],
    ['Ctrl+C', trans.__('copy the selected lines as plain text')],
    ['Esc', trans.__('close; in a field, return to the lines')],
    ['?', trans.__('show these shortcuts')]
  ];
}
