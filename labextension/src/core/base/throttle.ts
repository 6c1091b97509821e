/** Does something when it is asked to, but not more often than every so many milliseconds. */
export class Paced {
  #work: () => void;
  #every: () => number;
  #done = -Infinity;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(work: () => void, every: () => number) {
    this.#work = work;
    this.#every = every;
  }

  /** Do it, at once if it was not done lately. */
  ask(): void {
    const wait = this.#done + this.#every() - performance.now();
    if (wait <= 0) {
      this.#do();
    } else {
      this.#timer ??= setTimeout(() => this.#do(), wait);
    }
  }

  dispose(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #do(): void {
    this.dispose();
    this.#done = performance.now();
    this.#work();
  }
}
