interface ThrottleOptions {
  /** Run at once after a quiet time, rather than at the end of the interval. */
  leading?: boolean;
}

/** Runs something on request, but not more often than once in an interval. */
export class Throttle {
  #work: () => void;
  #interval: () => number;
  #leading: boolean;
  #last = -Infinity;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** `interval` is in milliseconds; a function may return another one each time. */
  constructor(
    work: () => void,
    interval: number | (() => number),
    { leading = true }: ThrottleOptions = {}
  ) {
    this.#work = work;
    this.#interval = typeof interval === 'number' ? () => interval : interval;
    this.#leading = leading;
  }

  /** Run it now if the interval is over, else when it is. */
  request(): void {
    const interval = this.#interval();
    const wait = this.#leading ? this.#last + interval - performance.now() : interval;
    if (wait <= 0) {
      this.flush();
    } else {
      this.#timer ??= setTimeout(() => this.flush(), wait);
    }
  }

  /** Run it now. */
  flush(): void {
    this.cancel();
    this.#last = performance.now();
    this.#work();
  }

  /** Drop what was requested. */
  cancel(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
