import type uPlot from 'uplot';

import type { Table } from '../../src/core/plots/lines';

/** What of uPlot is used, without a canvas. */
export class FakePlot {
  static all: FakePlot[] = [];
  static get live(): FakePlot[] {
    return FakePlot.all.filter(({ gone }) => !gone);
  }

  data: Table = [[]];
  x: { min: number; max: number } | null = null;
  gone = false;
  width: number;
  select = { left: 0, width: 0 };
  cursor: { left: number; idx: number | null } = { left: -10, idx: null };
  ctx = { canvas: document.createElement('canvas') };

  constructor(readonly options: uPlot.Options) {
    this.width = options.width;
    FakePlot.all.push(this);
  }
  batch(work: () => void): void {
    work();
  }
  setData(data: Table): void {
    this.data = data;
  }
  setScale(_: string, range: { min: number; max: number }): void {
    this.x = range;
  }
  setSelect(): void {
    this.select = { left: 0, width: 0 };
  }
  posToVal(left: number): number {
    return left;
  }
  valToPos(value: number): number {
    return value;
  }
  setCursor({ left }: { left: number }): void {
    const at = this.data[0].indexOf(left);
    this.cursor = { left, idx: at < 0 ? null : at };
    this.options.hooks?.setCursor?.[0]?.(this as unknown as uPlot);
  }
  setSize(): void {
    // It has none.
  }
  destroy(): void {
    this.gone = true;
  }
}
