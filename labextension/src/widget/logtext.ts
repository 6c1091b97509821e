/** A log as one text, over the connection of the views: a kernel serves no files. */

import { ServerError } from '../core/base/errors';
import type { Live } from '../core/base/live';
import type { LogMessage, RawLine, Source } from '../core/base/protocol';
import { PAGE } from '../core/log/pages';

const SHOWN = 4096; // bytes of a line that the server sends in a list

/** Return the log of a source so far; without one those of all ranks, each line with its rank. */
export async function logText(live: Live, key: string, source: Source | null): Promise<string> {
  const sources = source === null ? null : [source];
  const view = openView(live, key, sources);
  try {
    const length = await view.length;
    const parts: string[] = [];
    for (let start = 0; start < length; start += PAGE) {
      const count = Math.min(PAGE, length - start);
      const { lines } = await live.ask({ op: 'lines', view: view.id, start, count });
      for (const line of lines) {
        const text = await wholeText(live, view.id, line);
        parts.push(source === null && line[1] !== null ? `[${line[1]}] ${text}` : text);
      }
    }
    return parts.map(part => `${part}\n`).join('');
  } finally {
    view.close();
  }
}

function openView(live: Live, key: string, sources: Source[] | null) {
  let told: (message: LogMessage) => void = () => {};
  const length = new Promise<number>((resolve, reject) => {
    told = message => {
      if (message.kind === 'error') {
        reject(new ServerError(message.message, message.hint));
      } else if (message.kind === 'log' && message.complete) {
        resolve(message.length);
      }
    };
  });
  const opened = live.open(
    { op: 'open', topic: 'log', key, sources, include: null, exclude: null, raw: true },
    message => told(message)
  );
  return { id: opened.id, close: () => opened.close(), length };
}

/** Lists contain long lines in part; query the full line. */
async function wholeText(live: Live, view: number, line: RawLine): Promise<string> {
  const [position, , , text, bytes] = line;
  return bytes > SHOWN ? (await live.ask({ op: 'line', view, position })).text : text;
}
