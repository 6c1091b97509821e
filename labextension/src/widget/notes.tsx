import { useLayoutEffect, useRef } from 'preact/hooks';

import { plain } from '../core/base/format';
import type { Question } from '../core/base/actions';
import { focusNear } from '../core/base/hooks';
import type { Words } from '../core/base/translator';

interface AskProps {
  question: Question;
  /** Is told whether to do it. */
  onAnswer: (yes: boolean) => void;
}

/** Ask in place: the page of a widget may be one in which nothing can pop up. */
export function Ask({ question, onAnswer }: AskProps) {
  const keep = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    const from = focusNear(keep.current);
    keep.current?.focus();
    return () => from?.focus();
  }, []);
  return (
    <div
      class="jaxtrain-stale jaxtrain-ask-first"
      role="alertdialog"
      aria-label={question.title}
      onKeyDown={event => {
        if (event.key === 'Escape') {
          event.stopPropagation();
          onAnswer(false);
        }
      }}
    >
      <span>
        <b>{question.title}</b> {question.body}
      </span>
      <span class="jaxtrain-glance-buttons">
        <button ref={keep} type="button" class="jaxtrain-button" onClick={() => onAnswer(false)}>
          {question.refusal}
        </button>
        <button
          type="button"
          class="jaxtrain-button jaxtrain-danger"
          onClick={() => onAnswer(true)}
        >
          {question.label}
        </button>
      </span>
    </div>
  );
}

export interface Trouble {
  message: string;
  hint: string | null;
}

interface WrongProps {
  trouble: Trouble;
  words: Words;
  onClose: () => void;
}

/** Say what went wrong, until the user has seen it. */
export function Wrong({ trouble, words, onClose }: WrongProps) {
  return (
    <div class="jaxtrain-stale jaxtrain-went-wrong" role="alert">
      <span>
        {plain(trouble.message)} {trouble.hint && plain(trouble.hint)}
      </span>
      <button type="button" class="jaxtrain-button" onClick={onClose}>
        {words.__('Close')}
      </button>
    </div>
  );
}
