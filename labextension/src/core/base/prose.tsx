import { sanitize } from './format';
import type { Host } from './host';

/** A sentence in which text between backquotes is code. */
export function Prose({ text }: { text: string }) {
  const parts = sanitize(text).split(/`([^`]+)`/);
  return <>{parts.map((part, index) => (index % 2 === 1 ? <code>{part}</code> : part))}</>;
}

/** A block of code with a button that copies it. */
export function CodeBlock({ text, host }: { text: string; host: Pick<Host, 'trans' | 'copy'> }) {
  return (
    <div class="jaxtrain-code">
      <pre>{text}</pre>
      <button type="button" class="jaxtrain-button" onClick={() => host.copy(text)}>
        {host.trans.__('Copy')}
      </button>
    </div>
  );
}
