import { plain } from './format';

/** A sentence in which what stands between backquotes is code. */
export function Said({ text }: { text: string }) {
  const parts = plain(text).split(/`([^`]+)`/);
  return <>{parts.map((part, index) => (index % 2 === 1 ? <code>{part}</code> : part))}</>;
}
