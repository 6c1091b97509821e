/** What can be done with a job, and what the user has to confirm first. */

import { sanitize } from './format';
import type { Action, Row } from './protocol';
import type { Translator } from './translator';

/** Return whether a job's results are withheld because somebody else submitted it. */
export function isWithheld({ trust }: Row): boolean {
  return trust === 'foreign' || trust === 'forbidden';
}

/** Return the key of an action's button: a button that replaces another one keeps the focus. */
export function actionKey(action: Action): string {
  return action === 'resume' ? 'suspend' : action;
}

/** Return the label of an action on a job. */
export function actionLabel({ session }: Row, action: Action, trans: Translator): string {
  return {
    cancel: session ? trans.__('End') : trans.__('Cancel'),
    delete: trans.__('Delete'),
    suspend: trans.__('Suspend'),
    resume: trans.__('Resume'),
    detach: trans.__('Detach'),
    trust: trans.__('Trust results'),
    restart: trans.__('Restart'),
    interrupt: trans.__('Interrupt'),
    prolong: trans.__('Prolong'),
    save: trans.__('Save'),
    restore: trans.__('Restore'),
    profile: trans.__('Profile')
  }[action];
}

export interface Confirmation {
  title: string;
  body: string;
  /** Label of the button that goes ahead. */
  confirm: string;
  /** Label of the button that changes nothing. */
  dismiss: string;
}

/** Return the confirmation that an action needs; null if it needs none. */
export function confirmationFor(row: Row, action: Action, trans: Translator): Confirmation | null {
  const name = sanitize(row.name);
  if (action === 'cancel' && row.session) {
    return {
      title: trans.__('End %1?', name),
      body: trans.__(
        'Its ranks stop, and its variables are lost. Logs, metrics and results of its cells are kept.'
      ),
      confirm: trans.__('End Session'),
      dismiss: trans.__('Keep')
    };
  }
  if (action === 'cancel' && row.cell_of) {
    return {
      title: trans.__('Cancel %1?', name),
      body:
        row.state === 'Running'
          ? trans.__(
              'The cell is interrupted on all ranks. Variables are kept if the ranks stop in sync.'
            )
          : trans.__('The cell is taken out of the queue of its session.'),
      confirm: trans.__('Cancel Cell'),
      dismiss: trans.__('Keep')
    };
  }
  if (action === 'restart') {
    return {
      title: trans.__('Restart %1?', name),
      body: trans.__(
        'Its ranks are restarted, and all of its variables are lost. A running cell is cancelled.'
      ),
      confirm: trans.__('Restart Session'),
      dismiss: trans.__('Keep')
    };
  }
  if (action === 'restore') {
    return {
      title: trans.__('Restore variables of %1?', name),
      body: trans.__('The last saved values replace variables of the same names.'),
      confirm: trans.__('Restore Variables'),
      dismiss: trans.__('Keep')
    };
  }
  if (action === 'cancel') {
    return {
      title: trans.__('Cancel %1?', name),
      body: trans.__('Its processes are stopped. Its logs and metrics so far are kept.'),
      confirm: trans.__('Cancel Job'),
      dismiss: trans.__('Keep')
    };
  }
  if (action === 'delete') {
    const mine = row.trust === 'own' || row.trust === 'signed';
    return {
      title: trans.__('Delete %1?', name),
      body:
        (row.active && mine ? trans.__('It is still active and is cancelled first.') + ' ' : '') +
        (mine
          ? ''
          : trans.__('Somebody else submitted it: its TrainJob stays in the cluster.') + ' ') +
        trans.__('Its logs, metrics, results and checkpoints are deleted permanently.') +
        (row.session ? ' ' + trans.__('So are its cells, with their logs and results.') : ''),
      confirm: trans.__('Delete'),
      dismiss: trans.__('Keep')
    };
  }
  if (action === 'trust') {
    const { maker } = row;
    return {
      title: trans.__('Trust the results of %1?', name),
      body: [
        maker === null
          ? trans.__('This job was not submitted from your job store.')
          : trans.__(
              'This job was not submitted from your job store. It claims to be made by %1; the cluster cannot confirm that.',
              sanitize(maker)
            ),
        trans.__(
          'Its results and HTML can run code with your permissions. Continue only if you trust the author.'
        ),
        trans.__('Then load them with %1', `%jaxtrain result ${name}`)
      ].join(' '),
      confirm: trans.__('Trust Results'),
      dismiss: trans.__('Withhold')
    };
  }
  return null;
}
