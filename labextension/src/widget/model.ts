/** The part of an anywidget model that is used. */
export interface Model {
  get(name: string): unknown;
  on(event: string, listener: (...args: never[]) => void): void;
  off(event: string, listener: (...args: never[]) => void): void;
  send(message: unknown): void;
}

export interface RenderProps {
  model: Model;
  el: HTMLElement;
}

/** Return a message of the kernel as an object with unknown fields. */
export function asRecord(message: unknown): Record<string, unknown> {
  return typeof message === 'object' && message !== null
    ? (message as Record<string, unknown>)
    : {};
}
