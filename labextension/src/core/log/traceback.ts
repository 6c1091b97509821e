/** How a traceback goes on, line by line, and where it ends. */

const BEGIN = /^\s*(?:\+ )?(?:Exception Group )?Traceback \(most recent call last\):\s*$/;
const AGAIN = /^(?:During handling of the above|The above exception was the direct cause)/;
const MOST = 1000; // lines of a traceback

/** Tell whether a traceback may begin with this text: cheap, since every line is asked. */
export function mayBegin(text: string): boolean {
  return text.includes('Traceback');
}

/** A traceback while its lines come; lines of other ranks may come between them. */
export class Traceback {
  /** The numbers of its lines. */
  readonly lines: number[];
  /** What it says at its end. */
  last = '';
  #over = false; // its error has been said
  #again = false; // another traceback was announced, which belongs to it
  #blank: number[] = []; // empty lines, which are its own only when it goes on

  private constructor(start: number) {
    this.lines = [start];
  }

  /** Begin one at a line; null where none begins. */
  static at(index: number, text: string): Traceback | null {
    return BEGIN.test(text) ? new Traceback(index) : null;
  }

  /** Take the next line of its rank; say whether it is one of its own. */
  take(index: number, text: string): boolean {
    if (!text.trim()) {
      this.#blank.push(index);
      return true;
    }
    const begin = BEGIN.test(text);
    const again = AGAIN.test(text);
    const foreign = this.#over && (begin ? !this.#again : !again);
    if (foreign || this.lines.length >= MOST) {
      return false;
    }
    this.lines.push(...this.#blank.splice(0), index);
    if (begin || again) {
      this.#over = again;
      this.#again = again;
    } else if (!/^\s/.test(text)) {
      this.#over = true;
      this.last = text;
    }
    return true;
  }
}
