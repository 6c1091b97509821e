/** The states of a job: their labels, and the groups that the list filters by. */

import { labelFor } from './format';
import type { State } from './protocol';
import type { Translator } from './translator';

export const GROUPS = ['waiting', 'running', 'failed', 'done', 'cancelled'] as const;
export type Group = (typeof GROUPS)[number];

const GROUP: Record<State, Group> = {
  Queued: 'waiting',
  Pending: 'waiting',
  Starting: 'waiting',
  Suspended: 'waiting',
  Running: 'running',
  Failed: 'failed',
  damaged: 'failed',
  Succeeded: 'done',
  Cancelled: 'cancelled'
};

/** Return the group of a state; unknown states count as waiting. */
export function group(state: State): Group {
  return (GROUP as Partial<Record<string, Group>>)[state] ?? 'waiting';
}

/** Return the label of a state. */
export function stateLabel(state: State, trans: Translator): string {
  const known: Record<State, string> = {
    Queued: trans.__('Queued'),
    Pending: trans.__('Pending'),
    Starting: trans.__('Starting'),
    Running: trans.__('Running'),
    Suspended: trans.__('Suspended'),
    Succeeded: trans.__('Succeeded'),
    Failed: trans.__('Failed'),
    Cancelled: trans.__('Cancelled'),
    damaged: trans.__('Damaged')
  };
  return (known as Partial<Record<string, string>>)[state] ?? state;
}

/** Return the label of a rank's state. */
export function rankStateLabel(state: string, trans: Translator): string {
  return labelFor(state, {
    Waiting: trans.__('Waiting'),
    Starting: trans.__('Starting'),
    Arrived: trans.__('Arrived'),
    Joined: trans.__('Joined'),
    Running: trans.__('Running'),
    Finished: trans.__('Finished'),
    Failed: trans.__('Failed'),
    Stopped: trans.__('Stopped')
  });
}

/** Return the label of a group. */
export function groupLabel(name: Group, trans: Translator): string {
  return {
    waiting: trans.__('Waiting'),
    running: trans.__('Running'),
    failed: trans.__('Failed'),
    done: trans.__('Succeeded'),
    cancelled: trans.__('Cancelled')
  }[name];
}
