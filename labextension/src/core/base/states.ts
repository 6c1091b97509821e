/** The states of a job: their words, and the groups that the list filters by. */

import { wordOf } from './format';
import type { Row, State } from './protocol';
import type { Words } from './translator';

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

/** Give the group of a state; one that is not known waits. */
export function group(state: State): Group {
  return (GROUP as Partial<Record<string, Group>>)[state] ?? 'waiting';
}

/** Give the word of a state. */
export function stateWord(state: State, words: Words): string {
  const known: Record<State, string> = {
    Queued: words.__('Queued'),
    Pending: words.__('Pending'),
    Starting: words.__('Starting'),
    Running: words.__('Running'),
    Suspended: words.__('Suspended'),
    Succeeded: words.__('Succeeded'),
    Failed: words.__('Failed'),
    Cancelled: words.__('Cancelled'),
    damaged: words.__('Damaged')
  };
  return (known as Partial<Record<string, string>>)[state] ?? state;
}

/** Give the word of the state of a rank. */
export function rankStateWord(state: string, words: Words): string {
  return wordOf(state, {
    Waiting: words.__('Waiting'),
    Starting: words.__('Starting'),
    Arrived: words.__('Arrived'),
    Joined: words.__('Joined'),
    Running: words.__('Running'),
    Finished: words.__('Finished'),
    Failed: words.__('Failed'),
    Stopped: words.__('Stopped')
  });
}

/** Give the word of a group. */
export function groupWord(name: Group, words: Words): string {
  return {
    waiting: words.__('Waiting'),
    running: words.__('Running'),
    failed: words.__('Failed'),
    done: words.__('Succeeded'),
    cancelled: words.__('Cancelled')
  }[name];
}

/** Count the jobs of each group. */
export function count(rows: readonly Row[]): Record<Group, number> {
  const counts = { waiting: 0, running: 0, failed: 0, done: 0, cancelled: 0 };
  for (const row of rows) {
    counts[group(row.state)]++;
  }
  return counts;
}
