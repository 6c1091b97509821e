/**
 * Which rows are seen, and where the scroll bar is.
 *
 * Browsers cap the height of an element, so for a very long log a pixel of the scroll bar is more
 * than a pixel of the text: short moves then go by pixels, and long ones in proportion.
 */

export const ROW = 18; // pixels, as in log.css
const HIGHEST = 15_000_000; // Firefox has the lowest cap, of about 17.8 million pixels

export class Scroll {
  rows = 0;
  /** The height of what is seen, in pixels. */
  view = 600;
  /** The row at the top; a fraction when it is seen in part. */
  top = 0;
  /** Where the scroll bar is. */
  bar = 0;

  get height(): number {
    return Math.min(this.rows * ROW, HIGHEST);
  }

  get scaled(): boolean {
    return this.rows * ROW > HIGHEST;
  }

  /** The greatest row that can be at the top. */
  get most(): number {
    return Math.max(0, this.rows - this.view / ROW);
  }

  get atEnd(): boolean {
    return this.top >= this.most - 0.5;
  }

  /** Rows that are seen, the first and the one after the last. */
  get seen(): [number, number] {
    const first = Math.floor(this.top);
    return [first, Math.min(this.rows, Math.ceil(this.top + this.view / ROW))];
  }

  /** How many rows are seen in full. */
  get page(): number {
    return Math.max(1, Math.floor(this.view / ROW));
  }

  /** Put a row at the top. */
  to(row: number): void {
    this.top = Math.max(0, Math.min(this.most, row));
    this.bar = this.#barOf(this.top);
  }

  toEnd(): void {
    this.to(this.most);
  }

  /** Scroll just enough to show a row; a distant one is put a third of the way down. */
  show(row: number): void {
    const fits = this.view / ROW - 1;
    if (row >= this.top && row <= this.top + fits) {
      return;
    }
    const far = Math.abs(row - this.top) > 2 * this.page;
    this.to(far ? row - fits / 3 : row < this.top ? row : row - fits);
  }

  /** The scroll bar moved; return whether anything but `to` moved it. */
  moved(bar: number): boolean {
    const change = bar - this.bar;
    if (Math.abs(change) < 1) {
      return false;
    }
    const range = this.height - this.view;
    if (!this.scaled) {
      this.top = bar / ROW;
    } else if (bar <= 0 || bar >= range - 1) {
      this.top = bar <= 0 ? 0 : this.most;
    } else if (Math.abs(change) < 2 * this.view) {
      this.top += change / ROW;
    } else {
      this.top = (bar / range) * this.most;
    }
    this.top = Math.max(0, Math.min(this.most, this.top));
    this.bar = bar;
    return true;
  }

  /** Where the bar belongs; after short moves in a very long log it is a little off. */
  get right(): number {
    return this.#barOf(this.top);
  }

  #barOf(top: number): number {
    if (!this.scaled) {
      return top * ROW;
    }
    return this.most > 0 ? (top / this.most) * (this.height - this.view) : 0;
  }
}
