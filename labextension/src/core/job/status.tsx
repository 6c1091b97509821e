import { useState } from 'preact/hooks';

import { sanitize } from '../base/format';
import { useLatch } from '../base/hooks';
import type { Host } from '../base/host';
import { reasonOf } from '../base/progress';
import { Prose } from '../base/prose';
import type { Row, TailLine } from '../base/protocol';
import { Tail } from '../log/tail';
import { type Cause, FailureBox } from './failure';

const LINES = 10; // that the server sends
const LINES_OF_SESSION = 5; // little is printed between its cells, which have logs of their own

interface StatusPartProps {
  row: Row;
  /** Why it failed, if it has. */
  cause: Cause | null;
  tail: readonly TailLine[];
  host: Host;
}

/**
 * Why a job waits, what it prints, or why it failed.
 *
 * Once the job has been active in this view, all of these share one space of fixed height, so that
 * nothing else moves when one replaces another.
 */
export function StatusPart({ row, cause, tail, host }: StatusPartProps) {
  const { trans } = host;
  const held = useLatch(row.active);
  const [whole, setWhole] = useState(false);
  const reason = reasonOf(row);
  const most = row.session ? LINES_OF_SESSION : LINES;
  if (cause) {
    return (
      <div class="jaxtrain-now jaxtrain-place" data-lines={most} data-held={held && !whole}>
        <FailureBox row={row} cause={cause} host={host}>
          {held && (
            <button
              type="button"
              class="jaxtrain-small"
              aria-expanded={whole}
              onClick={() => setWhole(!whole)}
            >
              {whole ? trans.__('Show less') : trans.__('Show all')}
            </button>
          )}
        </FailureBox>
      </div>
    );
  }
  return (
    <div class="jaxtrain-now jaxtrain-place" data-lines={most} data-held={held}>
      {reason && (
        <div class="jaxtrain-why">
          <p>{reason}</p>
          {row.hint && (
            <p class="jaxtrain-quiet">
              <Prose text={sanitize(row.hint)} />
            </p>
          )}
        </div>
      )}
      {(held || tail.length > 0) && (
        <Tail row={row} lines={tail.slice(-most)} room={held ? most : 0} trans={trans} />
      )}
    </div>
  );
}
