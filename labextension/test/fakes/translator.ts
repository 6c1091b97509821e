/** A language in which every word of ours is marked, and all that others say has other letters. */

import type { Translator } from '../../src/core/base/translator';

/** Return the same words, marked. */
export function marked(trans: Translator): Translator {
  return {
    __: (message, ...values) => `«${trans.__(message, ...values)}»`,
    _n: (one, many, count, ...values) => `«${trans._n(one, many, count, ...values)}»`
  };
}

// What is no word, but part of the protocol: views decide by it what to show.
const PROTOCOL = new Set([
  ...['key', 'uid', 'state', 'kind', 'backend', 'actions', 'level', 'id', 'group', 'device'],
  ...['choices', 'option']
]);
// Whose fields have names that a job gave them.
const NAMED = ['metrics', 'values'];

/** Return the same data with Greek letters in all that jobs, clusters and servers say. */
export function greek<T>(value: T, key = ''): T {
  if (typeof value === 'string') {
    const text = value.replace(/[a-z]/gi, letter =>
      String.fromCharCode(0x3b0 + (letter.charCodeAt(0) & 31))
    );
    return (PROTOCOL.has(key) ? value : text) as T;
  }
  if (Array.isArray(value)) {
    return value.map(each => greek<unknown>(each, key)) as T;
  }
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).map(([name, each]) => [
      NAMED.includes(key) ? greek(name) : name,
      // An option is known by its name.
      name === 'name' && 'flag' in value ? (each as unknown) : greek<unknown>(each, name)
    ]);
    return Object.fromEntries(entries) as T;
  }
  return value;
}

const HEARD = [
  ...['aria-label', 'aria-description', 'aria-roledescription', 'aria-valuetext'],
  ...['title', 'placeholder', 'alt', 'label']
];
// Code, keys of a keyboard, and signs that are the same in all languages.
const CODE = 'pre, code, kbd';
const SIGNS = /\b(CPU|GPU|TPU|Aa|[kMG]?B|SIG[A-Z]+|%%?jaxtrain)\b/g;

/** Return the words that one sees or hears in a page, and that no translator has seen. */
export function unmarked(root: Element): string[] {
  const elements = [root, ...root.querySelectorAll('*')];
  const heard = elements.flatMap(element =>
    HEARD.map(name => element.getAttribute(name) ?? '').map(rest)
  );
  return [...heard, ...rest(visible(root)).split('\n')]
    .map(text => text.trim())
    .filter(text => /[a-z]/i.test(text));
}

/** Return all text, each part in a line of its own: a marked one may be in several elements. */
function visible(node: Node): string {
  if (node instanceof Text) {
    return node.data;
  }
  const children = node instanceof Element && node.matches(CODE) ? [] : [...node.childNodes];
  return children.map(visible).join('\n');
}

/** Take out what is marked, from the inside to the outside. */
export function rest(text: string): string {
  const less = text.replace(/«[^«»]*»/g, '');
  return less === text ? text.replace(SIGNS, '') : rest(less);
}
