import { useState } from 'preact/hooks';

import { plain } from '../base/format';
import type { Host } from '../base/host';
import type { Row, TailLine } from '../base/protocol';
import { useEver } from '../base/hooks';
import { reasonOf } from '../jobs/row';
import { Said } from '../base/prose';
import { Tail } from '../log/tail';
import { FailureBox, type Cause } from './failure';

const LINES = 10; // that the server sends

interface NowProps {
  row: Row;
  /** Why it failed, if it has. */
  cause: Cause | null;
  tail: readonly TailLine[];
  host: Host;
}

/**
 * What a job waits for, does or failed of: a reason, the last lines, or the failure.
 *
 * While somebody looks at a job that is not at its end, all of these have a place of one height, so that
 * nothing else moves when one takes the place of another.
 */
export function Now({ row, cause, tail, host }: NowProps) {
  const { words } = host;
  const held = useEver(row.active);
  const [whole, setWhole] = useState(false);
  const reason = reasonOf(row);
  if (cause) {
    return (
      <div class="jaxtrain-now jaxtrain-place" data-held={held && !whole}>
        <FailureBox row={row} cause={cause} host={host}>
          {held && (
            <button
              type="button"
              class="jaxtrain-small"
              aria-expanded={whole}
              onClick={() => setWhole(!whole)}
            >
              {whole ? words.__('Show less') : words.__('Show all')}
            </button>
          )}
        </FailureBox>
      </div>
    );
  }
  return (
    <div class="jaxtrain-now jaxtrain-place" data-held={held}>
      {reason && (
        <div class="jaxtrain-why">
          <p>{reason}</p>
          {row.hint && (
            <p class="jaxtrain-quiet">
              <Said text={plain(row.hint)} />
            </p>
          )}
        </div>
      )}
      {(held || tail.length > 0) && (
        <Tail row={row} lines={tail} room={held ? LINES : 0} words={words} />
      )}
    </div>
  );
}
