import type { ComponentProps } from 'preact';
import { useState } from 'preact/hooks';

type Own = 'id' | 'placeholder' | 'aria-label' | 'spellcheck' | 'autocomplete';

interface EntryProps extends Pick<ComponentProps<'input'>, Own> {
  value: string;
  /** Called with the text once it is committed. */
  onEnter: (text: string) => void;
}

/**
 * A field whose text counts once it is committed; updates meanwhile do not overwrite it. Escape
 * discards the text.
 */
export function Entry({ value, onEnter, ...others }: EntryProps) {
  const [typed, setTyped] = useState<string | null>(null);
  return (
    <input
      {...others}
      type="text"
      value={typed ?? value}
      onInput={event => setTyped(event.currentTarget.value)}
      onChange={event => {
        setTyped(null);
        onEnter(event.currentTarget.value);
      }}
      onKeyDown={event => {
        if (event.key === 'Escape') {
          event.currentTarget.value = value; // reset it now, or blur would fire a change event
          setTyped(null);
        }
      }}
      onBlur={() => setTyped(null)}
    />
  );
}
