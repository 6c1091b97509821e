/** What the ranks of a job use of their machines, as its page draws it. */

import { Observable } from '../base/observable';
import type { Course, CourseLine } from '../base/protocol';
import type { Column } from './metrics';

export class Machine extends Observable {
  courses: readonly Course[] = [];
  /** Of each rank how its memory went, in GiB. */
  sparks: readonly (readonly number[])[] = [];
  /** Grows with each change. */
  version = 0;

  put(courses: readonly Course[], sparks: readonly (readonly number[])[]): void {
    this.courses = courses;
    this.sparks = sparks;
    this.version++;
    this.notify();
  }

  /** When the first sample was taken, in seconds since the epoch. */
  get began(): number {
    const first = this.courses.flatMap(({ lines }) => lines.map(({ points }) => points[0]?.[0]));
    return Math.min(...first.filter(time => time !== undefined));
  }
}

/** Whether the first lines of a course are the least, the median and the most of all ranks. */
export function isBand({ lines }: Course): boolean {
  return lines[0]?.role === 'least';
}

/** Return a line as a plot takes it. */
export function columnOf({ points }: CourseLine): Column {
  return {
    steps: points.map((_, index) => index),
    times: points.map(([time]) => time),
    values: points.map(([, value]) => value)
  };
}
