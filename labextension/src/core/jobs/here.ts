import type { Live } from '../base/live';
import { LiveStore } from '../base/livestore';
import type { Here, Message } from '../base/protocol';

/** What is used of the server's machine, or of its container. */
export class HereStore extends LiveStore {
  look: Here | null = null;

  constructor(live: Live) {
    super(live, { op: 'open', topic: 'here' });
  }

  protected take(message: Message): void {
    // A server of an earlier version does not know the topic: then there is nothing to show.
    if (message.kind === 'here') {
      this.look = message;
      this.notify();
    }
  }
}
