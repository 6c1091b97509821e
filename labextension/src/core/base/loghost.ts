import type { Host } from './host';
import type { Source } from './logprotocol';

/** What the log viewer needs of the page that it is in. */
export interface LogHost extends Host {
  /** Save a log as a file; without a source all of them. */
  save(key: string, source: Source | null): void;
  /** Give the address of a page that opens this log at a line. */
  link?(key: string, position: number, source: Source | null): string;
}
