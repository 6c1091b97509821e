/** What is asked before something is done that cannot be undone, or may do harm. */

import { plain } from './format';
import type { Action, Row } from './protocol';
import type { Words } from './translator';

export interface Question {
  title: string;
  body: string;
  /** The word of the button that does it. */
  label: string;
  /** The word of the button that leaves all as it is. */
  refusal: string;
}

/** Give what to ask; null for what can be done unasked. */
export function questionOf(row: Row, action: Action, words: Words): Question | null {
  const name = plain(row.name);
  if (action === 'cancel') {
    return {
      title: words.__('Cancel %1?', name),
      body: words.__('Its processes stop. What it has printed and reported so far is kept.'),
      label: words.__('Cancel Job'),
      refusal: words.__('Keep')
    };
  }
  if (action === 'delete') {
    const mine = row.trust === 'own' || row.trust === 'signed';
    return {
      title: words.__('Delete %1?', name),
      body:
        (row.active && mine
          ? words.__('It has not ended yet, and is cancelled first.') + ' '
          : '') +
        (mine
          ? ''
          : words.__('Somebody else submitted it: its TrainJob stays in the cluster.') + ' ') +
        words.__('Its logs, metrics, results and checkpoints are removed for good.'),
      label: words.__('Delete'),
      refusal: words.__('Keep')
    };
  }
  if (action === 'trust') {
    const { maker } = row;
    return {
      title: words.__('Trust the results of %1?', name),
      body: [
        maker === null
          ? words.__('This job was not submitted from your job store.')
          : words.__(
              'This job was not submitted from your job store. It claims to be made by %1; the cluster cannot confirm that.',
              plain(maker)
            ),
        words.__(
          'Its results and HTML can run code with your permissions. Continue only if you trust the author.'
        ),
        words.__('Then load them with %1', `%jaxtrain result ${name}`)
      ].join(' '),
      label: words.__('Trust Results'),
      refusal: words.__('Withhold')
    };
  }
  return null;
}
