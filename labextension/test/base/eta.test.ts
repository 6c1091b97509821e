import { expect, it } from 'vitest';

import { Eta, etaOf } from '../../src/core/base/eta';
import { detail, ended, row } from '../fakes/make';
import { progress } from '../fakes/summary';

const at = (step: number, time: number) => row({ progress: progress(step, time) });

it('is estimated from the observed rate, once that is long enough', () => {
  const eta = new Eta();
  eta.observe(at(1000, 100));
  expect(eta.secondsLeft(100)).toBeNull();
  eta.observe(at(1010, 105));
  expect(eta.secondsLeft(105)).toBeNull();
  eta.observe(at(1500, 120));
  expect(eta.secondsLeft(120)).toBe(20);
  expect(eta.secondsLeft(125)).toBe(15);
  expect(eta.secondsLeft(1000)).toBe(0);
});

it('is unknown for a job that makes no progress, went back, or has ended', () => {
  const eta = new Eta();
  eta.observe(at(1000, 100));
  eta.observe(at(1000, 200));
  expect(eta.secondsLeft(200)).toBeNull();
  eta.observe(at(1500, 220));
  expect(eta.secondsLeft(220)).not.toBeNull();
  eta.observe(at(100, 230));
  expect(eta.secondsLeft(230)).toBeNull();
  eta.observe(at(200, 250));
  expect(eta.secondsLeft(250)).not.toBeNull();
  eta.observe(ended());
  expect(eta.secondsLeft(300)).toBeNull();
});

it('is the average since the start, where that is known and nothing was observed yet', () => {
  const { state } = detail();
  const started = state?.history.find(entry => entry.state === 'Running')?.time ?? NaN;
  const left = (fraction: number | null) => {
    const eta = new Eta();
    eta.observe(row({ progress: { ...progress(1, started + 100), fraction } }), state);
    return eta.secondsLeft(started + 100);
  };
  expect([0.5, 0.25, 0.01, null, NaN].map(left)).toEqual([100, 300, null, null, null]);
});

it('is the same in all views of a job, whichever knows when it started', () => {
  const { state } = detail();
  const started = state?.history.find(entry => entry.state === 'Running')?.time ?? NaN;
  const seen = (uid: string) =>
    row({ uid, progress: { ...progress(1, started + 50), fraction: 0.5 } });
  const job = seen('shared');
  etaOf(job).observe(job);
  expect(etaOf(job).secondsLeft(started + 50)).toBeNull();
  etaOf(job).observe(job, state); // its own tab is opened
  etaOf(job).observe(job);
  expect(etaOf(job).secondsLeft(started + 50)).toBe(50);
  expect(etaOf(seen('another')).secondsLeft(started + 50)).toBeNull();
});
