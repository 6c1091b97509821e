/** What is asked before something is done that cannot be undone. */

import { plain } from './format';
import type { Action, Row } from './protocol';
import type { Words } from './words';

export interface Question {
  title: string;
  body: string;
  /** The word of the button that does it. */
  label: string;
}

/** Give what to ask; null for what can be undone. */
export function questionOf(row: Row, action: Action, words: Words): Question | null {
  const name = plain(row.name);
  if (action === 'cancel') {
    return {
      title: words.__('Cancel %1?', name),
      body: words.__('Its processes stop. What it has printed and reported so far is kept.'),
      label: words.__('Cancel Job')
    };
  }
  if (action === 'delete') {
    return {
      title: words.__('Delete %1?', name),
      body:
        (row.active ? words.__('It has not ended yet, and is cancelled first.') + ' ' : '') +
        words.__('Its logs, metrics, results and checkpoints are removed for good.'),
      label: words.__('Delete')
    };
  }
  return null;
}
