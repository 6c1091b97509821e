import type { ComponentChildren } from 'preact';

import { plain } from '../base/format';
import type { Host } from '../base/host';
import { Said } from '../base/prose';
import type { Words } from '../base/translator';
import type { Level, LineError, Trouble } from './types';

/** What the views of the picker need of the page. */
export type PickerHost = Pick<Host, 'words' | 'copy'>;

export function levelWord(level: Level, words: Words): string {
  return { ok: words.__('fine'), warning: words.__('warning'), error: words.__('wrong') }[level];
}

/** A dot in the colour of a level, with its word for those who do not see it. */
export function Dot({ level, words }: { level: Level; words: Words }) {
  const group = { ok: 'done', warning: 'waiting', error: 'failed' }[level];
  return (
    <span class="jaxtrain-level" data-group={group}>
      <span class="jaxtrain-dot" aria-hidden="true" />
      <span class="jaxtrain-unseen">{`${levelWord(level, words)}: `}</span>
    </span>
  );
}

/** Something went wrong: what, and what to do. */
export function Wrong({ trouble, children }: { trouble: Trouble; children?: ComponentChildren }) {
  return (
    <div class="jaxtrain-wrong" role="alert">
      <p>
        <Said text={trouble.message} />
      </p>
      {trouble.hint && (
        <p class="jaxtrain-quiet">
          <Said text={trouble.hint} />
        </p>
      )}
      {children}
    </div>
  );
}

/** What is wrong with an option, next to its field. */
export function Errors({ id, errors }: { id: string; errors: readonly LineError[] }) {
  return (
    <div id={id} class="jaxtrain-errors" aria-live="polite">
      {errors.map(({ message, hint }, index) => (
        <p key={index}>
          {plain(message)}
          {hint && (
            <span class="jaxtrain-quiet">
              {' '}
              <Said text={hint} />
            </span>
          )}
        </p>
      ))}
    </div>
  );
}
