/** What of a widget's model is used; anywidget gives it to a view. */
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

/** What comes from the kernel, before anything is known of it. */
export function asRecord(message: unknown): Record<string, unknown> {
  return typeof message === 'object' && message !== null
    ? (message as Record<string, unknown>)
    : {};
}
