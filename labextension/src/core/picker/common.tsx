import type { ComponentChildren } from 'preact';

import type { ErrorInfo } from '../base/errors';
import { sanitize } from '../base/format';
import type { Host } from '../base/host';
import { Prose } from '../base/prose';
import type { Translator } from '../base/translator';
import type { Level, LineError } from './types';

/** What the views of the picker need of the page. */
export type PickerHost = Pick<Host, 'trans' | 'copy'>;

export function levelLabel(level: Level, trans: Translator): string {
  return { ok: trans.__('OK'), warning: trans.__('warning'), error: trans.__('error') }[level];
}

/** A dot in the colour of a level, with its word for those who do not see it. */
export function Dot({ level, trans }: { level: Level; trans: Translator }) {
  const group = { ok: 'done', warning: 'waiting', error: 'failed' }[level];
  return (
    <span class="jaxtrain-level" data-group={group}>
      <span class="jaxtrain-dot" aria-hidden="true" />
      <span class="jaxtrain-unseen">{`${levelLabel(level, trans)}: `}</span>
    </span>
  );
}

/** Something went wrong: what, and what to do. */
export function Wrong({ error, children }: { error: ErrorInfo; children?: ComponentChildren }) {
  return (
    <div class="jaxtrain-wrong" role="alert">
      <p>
        <Prose text={error.message} />
      </p>
      {error.hint && (
        <p class="jaxtrain-quiet">
          <Prose text={error.hint} />
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
          {sanitize(message)}
          {hint && (
            <span class="jaxtrain-quiet">
              {' '}
              <Prose text={hint} />
            </span>
          )}
        </p>
      ))}
    </div>
  );
}
