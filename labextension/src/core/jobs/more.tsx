import { useEffect, useRef } from 'preact/hooks';

import type { Words } from '../base/translator';

/** The end of a list that is not shown in full: it goes on when one scrolls here, or presses. */
export function More({
  count,
  words,
  onMore
}: {
  count: number;
  words: Words;
  onMore: () => void;
}) {
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!button.current || typeof IntersectionObserver === 'undefined') {
      return;
    }
    const observer = new IntersectionObserver(
      entries => {
        if (entries.some(entry => entry.isIntersecting)) {
          onMore();
        }
      },
      { rootMargin: '400px' }
    );
    observer.observe(button.current);
    return () => observer.disconnect();
  });
  return (
    <button ref={button} type="button" class="jaxtrain-button" onClick={onMore}>
      {words._n('Show %1 more job', 'Show %1 more jobs', count)}
    </button>
  );
}
