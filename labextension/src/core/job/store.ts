import type { Live } from '../base/live';
import { LiveStore } from '../base/livestore';
import type { Detail, JobEvent, Message, TailLine } from '../base/protocol';
import { JobsStore } from '../jobs/store';
import { Machine } from '../plots/machine';
import { Metrics } from '../plots/metrics';

/** One job in full. */
export class JobStore extends LiveStore {
  readonly key: string;
  /** The metrics it has reported. */
  readonly metrics = new Metrics();
  /** What its ranks use of their machines. */
  readonly machine = new Machine();
  detail: Detail | null = null;
  events: readonly JobEvent[] = [];
  /** The last lines of its log. */
  tail: readonly TailLine[] = [];

  constructor(live: Live, key: string) {
    super(live, { op: 'open', topic: 'job', key });
    this.key = key;
  }

  /** Open another job; the caller disposes of it. */
  openOther(key: string): JobStore {
    return new JobStore(this.live, key);
  }

  /** Open the list of all jobs; the caller disposes of it. */
  list(): JobsStore {
    return new JobsStore(this.live);
  }

  protected take(message: Message): void {
    if (message.kind === 'error') {
      this.error = message;
    } else if (message.kind === 'job') {
      this.detail = message.detail;
      this.error = null;
    } else if (message.kind === 'events') {
      this.events = [...this.events.slice(0, message.from), ...message.events];
    } else if (message.kind === 'tail') {
      this.tail = message.lines;
    } else if (message.kind === 'metrics') {
      this.metrics.put(message.from, message.points);
      return; // plots subscribe to the metrics; nothing else has changed
    } else if (message.kind === 'machine') {
      this.machine.put(message.courses, message.sparks);
      return; // the same applies to these plots
    } else {
      return;
    }
    this.notify();
  }
}
