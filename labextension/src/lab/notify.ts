import { Notification } from '@jupyterlab/apputils';

import { duration, plain } from '../core/base/format';
import type { Host } from '../core/base/host';
import type { Row } from '../core/base/protocol';
import { isNews } from './told';

/** Which ends of jobs are told: the setting `notify`. */
export type Notify = 'all' | 'failed' | 'none';

/** Tell the user that a job has ended, once in all pages of the browser, and offer to open it. */
export async function tellEnd(row: Row, host: Host, notify: Notify): Promise<void> {
  const failed = row.state === 'Failed';
  if (notify === 'none' || (notify === 'failed' && !failed)) {
    return;
  }
  if (!(await isNews(`${row.key} ${row.uid ?? row.created}`))) {
    return;
  }
  const { words } = host;
  const name = plain(row.name);
  const took = duration((row.ended ?? Date.now() / 1000) - row.created, words);
  const actions = [{ label: words.__('Open'), callback: () => host.open(row) }];
  if (failed) {
    const reason = row.reason ? plain(row.reason) : words.__('no reason is known');
    Notification.error(words.__('%1 failed after %2: %3', name, took, reason), {
      actions,
      autoClose: false
    });
  } else if (row.state === 'Cancelled') {
    Notification.info(words.__('%1 was cancelled after %2.', name, took), {
      actions,
      autoClose: 10_000
    });
  } else {
    Notification.success(words.__('%1 succeeded in %2.', name, took), {
      actions,
      autoClose: 10_000
    });
  }
}
