import type { JobSummary, Row } from '../../src/core/base/protocol';
import { NOW, row } from './make';

/** Return the summary of a job; `change` says what is different. */
export function summary(of: Partial<Row> = {}, change: Partial<JobSummary> = {}): JobSummary {
  return {
    row: row(of),
    sent: 'x float32[60000,784] 188 MB',
    results: '',
    pulse: '',
    remarks: [],
    spark: null,
    tail: [],
    awaited: false,
    note: null,
    idle_ends: null,
    ...change
  };
}

export function progress(step: number, time = NOW, total = 2000) {
  return { step, total, fraction: step / total, metrics: { loss: 0.0831, acc: 0.97 }, time };
}
