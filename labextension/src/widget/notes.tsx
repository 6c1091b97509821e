import { useLayoutEffect, useRef } from 'preact/hooks';

import type { Confirmation } from '../core/base/actions';
import type { ErrorInfo } from '../core/base/errors';
import { sanitize } from '../core/base/format';
import { activeElementNear } from '../core/base/hooks';
import type { Translator } from '../core/base/translator';

interface AskProps {
  confirmation: Confirmation;
  /** Called with the user's choice. */
  onAnswer: (yes: boolean) => void;
}

/** A confirmation in place: the page of a widget may allow no dialogs. */
export function Ask({ confirmation, onAnswer }: AskProps) {
  const keep = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    const from = activeElementNear(keep.current);
    keep.current?.focus();
    return () => from?.focus();
  }, []);
  return (
    <div
      class="jaxtrain-stale jaxtrain-ask-first"
      role="alertdialog"
      aria-label={confirmation.title}
      onKeyDown={event => {
        if (event.key === 'Escape') {
          event.stopPropagation();
          onAnswer(false);
        }
      }}
    >
      <span>
        <b>{confirmation.title}</b> {confirmation.body}
      </span>
      <span class="jaxtrain-job-summary-buttons">
        <button ref={keep} type="button" class="jaxtrain-button" onClick={() => onAnswer(false)}>
          {confirmation.dismiss}
        </button>
        <button
          type="button"
          class="jaxtrain-button jaxtrain-danger"
          onClick={() => onAnswer(true)}
        >
          {confirmation.confirm}
        </button>
      </span>
    </div>
  );
}

interface WrongProps {
  error: ErrorInfo;
  trans: Translator;
  onClose: () => void;
}

/** An error message that the user can close. */
export function Wrong({ error, trans, onClose }: WrongProps) {
  return (
    <div class="jaxtrain-stale jaxtrain-went-wrong" role="alert">
      <span>
        {sanitize(error.message)} {error.hint && sanitize(error.hint)}
      </span>
      <button type="button" class="jaxtrain-button" onClick={onClose}>
        {trans.__('Close')}
      </button>
    </div>
  );
}
