/** Ways to a line other than by scrolling: the first error, a number, a time. */

import type { Reader } from './reader';
import { readTime } from './times';

export async function firstError(reader: Reader): Promise<void> {
  reader.say(reader.words.__('Looking for the first error…'));
  const found = await reader.store.firstError();
  const sure = found?.complete ?? true;
  arrive(
    reader,
    found?.index ?? null,
    sure
      ? reader.words.__('No line looks like an error.')
      : reader.words.__('None was found so far, and the log goes on: try again, or search it.')
  );
}

/** Go to a line by its number among those that are shown, or to a time. */
export async function toPlace(reader: Reader, text: string): Promise<void> {
  const { store, words } = reader;
  const number = /^\s*#?(\d+)\s*$/.exec(text.replace(/(?<=\d)[,.\u00a0\u202f](?=\d{3})/g, ''));
  if (number) {
    const last = store.length - 1;
    const index = Math.min(last, Math.max(0, Number(number[1]) - 1));
    arrive(reader, last < 0 ? null : index, words.__('There are no lines.'));
    return;
  }
  const time = readTime(text, store.began);
  if (time === null) {
    reader.say(
      words.__(
        'Type the number of a line, a time such as 14:30 or 2026-11-23 14:30, or +90 for seconds since the start.'
      )
    );
    return;
  }
  reader.say(words.__('Looking for that time…'));
  const index = await store.atTime(time);
  arrive(reader, index, words.__('Nothing was printed at that time or later.'));
}

function arrive(reader: Reader, index: number | null, otherwise: string): void {
  if (index === null) {
    reader.say(reader.store.error?.message ?? otherwise);
  } else {
    reader.said = '';
    reader.goTo(index);
  }
}
