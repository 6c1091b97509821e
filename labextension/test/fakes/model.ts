import type { Model } from '../../src/widget/model';

type Listener = (...args: never[]) => void;

/** A widget's model whose kernel is the test. */
export class FakeModel implements Model {
  sent: Record<string, unknown>[] = [];
  values: Record<string, unknown> = {};
  #listeners = new Map<string, Set<Listener>>();

  get(name: string): unknown {
    return this.values[name];
  }

  on(event: string, listener: Listener): void {
    this.#of(event).add(listener);
  }

  off(event: string, listener: Listener): void {
    this.#of(event).delete(listener);
  }

  send(message: unknown): void {
    this.sent.push(message as Record<string, unknown>);
  }

  set(name: string, value: unknown): void {
    this.values[name] = value;
    this.#notify(`change:${name}`);
  }

  say(message: unknown): void {
    this.#notify('msg:custom', message);
  }

  /** How many listen to anything. */
  get listeners(): number {
    return [...this.#listeners.values()].reduce((sum, each) => sum + each.size, 0);
  }

  #of(event: string): Set<Listener> {
    const found = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, found);
    return found;
  }

  #notify(event: string, ...args: unknown[]): void {
    [...this.#of(event)].forEach(listener => (listener as (...args: unknown[]) => void)(...args));
  }
}
