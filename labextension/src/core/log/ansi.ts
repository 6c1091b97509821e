/** Output of programs as pieces of text with classes: colours are kept, other control codes removed. */

import Anser from 'anser';

import { sanitize } from '../base/format';

export interface Piece {
  text: string;
  classes: string;
  color?: string;
  background?: string;
}

// Escape sequences: a title or link (OSC), other strings, CSI, and two characters.
const ESCAPE =
  // eslint-disable-next-line no-control-regex
  /\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|\[([0-?]*)([ -/]*)([@-~]?)|[ -/]*[0-~]?)/g;

/** Keep the codes for colours and styles, in the form that all terminals know. */
function style(_: string, values = '', between = '', final = ''): string {
  if (final !== 'm' || between || !/^[\d;:]*$/.test(values)) {
    return '';
  }
  const known = values
    .replace(/([34]8):2:\d*:(\d+):(\d+):(\d+)/g, '$1;2;$2;$3;$4')
    .replace(/\b4:(\d)\b/g, (_whole, kind: string) => (kind === '0' ? '24' : '4'))
    .replaceAll(':', ';');
  return `\x1b[${known}m`;
}

/** Return what is left of a line when a carriage return took the cursor back. */
function overwritten(text: string): string {
  let end = text.length; // no regular expression: many returns would take quadratic time
  while (text[end - 1] === '\r') {
    end--;
  }
  return text.slice(end > 0 ? text.lastIndexOf('\r', end - 1) + 1 : 0, end);
}

/** Return a line in pieces. Colours do not continue in the next line. */
export function pieces(line: string): Piece[] {
  const text = overwritten(line);
  if (!text.includes('\x1b')) {
    const shown = sanitize(text);
    return shown ? [{ text: shown, classes: '' }] : [];
  }
  const entries = new Anser().process(
    text.replace(ESCAPE, style),
    { json: true, use_classes: true, remove_empty: true },
    true
  );
  return entries.map(toPiece).filter(piece => piece.text);
}

/** Return a line as people see it. */
export function textOf(line: string): string {
  return pieces(line)
    .map(piece => piece.text)
    .join('');
}

function toPiece(entry: Anser.AnserJsonEntry): Piece {
  const fg = colour(entry.fg, entry.fg_truecolor);
  const bg = colour(entry.bg, entry.bg_truecolor);
  const classes = [
    ...entry.decorations.map(name => `jaxtrain-ansi-${name}`),
    fg.name && `jaxtrain-${fg.name}`,
    bg.name && `jaxtrain-${bg.name}-bg`
  ];
  return {
    text: sanitize(entry.content),
    classes: classes.filter(Boolean).join(' '),
    ...(fg.value && { color: fg.value }),
    ...(bg.value && { background: bg.value })
  };
}

/** Return the class of one of 16 colours, or the value of another. */
function colour(given: string | null, true_: string | null): { name?: string; value?: string } {
  if (!given) {
    return {};
  }
  if (given === 'ansi-truecolor') {
    return true_ && /^[\d, ]+$/.test(true_) ? { value: `rgb(${true_})` } : {};
  }
  const index = /^ansi-palette-(\d+)$/.exec(given);
  return index ? { value: palette(Number(index[1])) } : { name: given };
}

function palette(index: number): string {
  if (index >= 232) {
    const grey = 8 + 10 * (index - 232);
    return `rgb(${grey}, ${grey}, ${grey})`;
  }
  const cube = index - 16;
  const level = (n: number) => (n === 0 ? 0 : 55 + 40 * n);
  const parts = [Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map(level);
  return `rgb(${parts.join(', ')})`;
}
