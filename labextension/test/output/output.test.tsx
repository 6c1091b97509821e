import { render } from 'preact';
import { act } from 'preact/test-utils';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Live } from '../../src/core/base/live';
import type { JobSummary, Problem } from '../../src/core/base/protocol';
import { english } from '../../src/core/base/translator';
import { JobOutput, readSaved, SummaryStore, SummaryStores } from '../../src/core/output/store';
import { Output } from '../../src/core/output/view';
import { ended, NOW } from '../fakes/make';
import { FakeSocket } from '../fakes/socket';
import { progress, summary } from '../fakes/summary';

const host = { trans: english, act: vi.fn(), copy: vi.fn() };
let live: Live;
let problem: Problem | null;
let summaries: SummaryStores;
let root: HTMLElement;

beforeEach(() => {
  FakeSocket.all = [];
  problem = null;
  live = new Live({
    url: () => 'ws://server',
    connect: url => new FakeSocket(url),
    probe: () => Promise.resolve(problem)
  });
  summaries = new SummaryStores(live);
  root = document.body.appendChild(document.createElement('div'));
});

afterEach(() => {
  void act(() => render(null, root));
  root.remove();
  live.dispose();
});

const opens = () => FakeSocket.last.sent.filter(({ op }) => op === 'open');
const doing = (work: () => void) => void act(work);

function say(message: object, nth = 0): void {
  doing(() => FakeSocket.last.say({ id: opens()[nth]?.['id'], ...message }));
}

const notify = (shown: JobSummary, nth = 0) => say({ kind: 'summary', summary: shown }, nth);
const refuse = (nth = 0) =>
  say({ kind: 'error', message: 'There is no such job.', hint: null }, nth);

function output(data: unknown, visible = true): JobOutput {
  const made = new JobOutput(summaries);
  made.set(readSaved(data));
  made.setVisible(visible);
  return made;
}

function draw(made: JobOutput): JobOutput {
  doing(() => {
    render(<Output output={made} host={() => host} />, root);
    FakeSocket.all.at(-1)?.accept();
  });
  return made;
}

const data = (more: object = {}) => ({ key: 'mnist-4', name: 'mnist-4', ...more });
const last = summary(ended({ actions: ['delete'] }), { results: 'params' });

describe('the store of a summary', () => {
  it('opens the topic, and holds what comes and what went wrong', () => {
    const store = new SummaryStore(live, 'mnist-4');
    FakeSocket.last.accept();
    expect(opens()[0]).toMatchObject({ topic: 'summary', key: 'mnist-4' });
    refuse();
    expect(store.error?.message).toBe('There is no such job.');
    notify(summary());
    expect(store.summary?.row.name).toBe('mnist-4');
    expect(store.error).toBeNull();
    store.dispose();
  });
});

describe('an output', () => {
  it('shows what the server says, at each change', () => {
    draw(output(data()));
    expect(root.textContent).toBe(''); // as long as the static card is all there is
    notify(summary());
    expect(root.textContent).toContain('Running');
    notify(summary(ended()));
    expect(root.textContent).toContain('Succeeded');
  });

  it('shares the topic with other outputs of the job, each of which shows everything', () => {
    const first = draw(output(data()));
    const second = output(data());
    expect(opens()).toHaveLength(1);
    notify(summary());
    expect([first, second].map(each => each.shown?.origin)).toEqual(['server', 'server']);
    const third = output(data());
    expect(third.shown).toMatchObject({ origin: 'server' });
    first.setVisible(false);
    third.setVisible(false);
    expect(FakeSocket.last.closed).toBe(false);
    second.setVisible(false);
    expect(FakeSocket.last.closed).toBe(true);
  });

  it('asks only while it is looked at, and keeps what it knew', () => {
    const made = draw(output(data(), false));
    expect(FakeSocket.all).toHaveLength(0);
    doing(() => made.setVisible(true));
    doing(() => FakeSocket.last.accept());
    notify(summary());
    doing(() => made.setVisible(false));
    expect(FakeSocket.last.closed).toBe(true);
    expect(root.textContent).toContain('Running');
    expect(root.textContent).not.toContain('No connection');
  });

  it('is not mistaken for a later job of the same name', () => {
    const first = data({ uid: 'first' });
    const known = draw(output(first));
    notify(summary({ uid: 'first', actions: ['cancel'] }));
    expect(known.shown).toMatchObject({ origin: 'server', summary: { row: { uid: 'first' } } });
    notify(summary({ uid: 'second', actions: ['cancel'] }));
    expect(known.shown).toMatchObject({
      origin: 'deleted',
      summary: { row: { uid: 'first', actions: [] } }
    });
    // What comes later has heard nothing of the first one.
    expect(output({ ...first, last }).shown?.origin).toBe('notebook');
    expect(output(first).shown).toBeNull();
    expect(output(data({ uid: 'second' })).shown?.origin).toBe('server');
  });

  it('shows a later job of the name although an output of the first one is still there', () => {
    const old = draw(output(data({ uid: 'first' })));
    notify(summary({ uid: 'first' }));
    refuse(); // it was deleted, and the server says no more
    const anew = output(data({ uid: 'second' }));
    notify(summary({ uid: 'second' }), 1);
    expect(anew.shown).toMatchObject({ origin: 'server', summary: { row: { uid: 'second' } } });
    expect(old.shown).toMatchObject({ origin: 'deleted', summary: { row: { uid: 'first' } } });
    refuse(1);
    old.set(readSaved(data({ uid: 'third' })));
    notify(summary({ uid: 'third' }), 2);
    expect(old.shown).toMatchObject({ origin: 'server', summary: { row: { uid: 'third' } } });
  });

  it('is not made anew when the notebook says more of the same job, but of another one', () => {
    const made = draw(output(data()));
    notify(summary());
    const card = root.querySelector('.jaxtrain-job-summary');
    doing(() => made.set(readSaved(data({ printed: true, last }))));
    expect(root.querySelector('.jaxtrain-job-summary')).toBe(card);
    expect(opens()).toHaveLength(1);
    doing(() => made.set(readSaved({ key: 'other', name: 'other' })));
    doing(() => FakeSocket.last.accept());
    expect(root.textContent).toBe('');
    expect(opens().at(-1)).toMatchObject({ key: 'other' });
  });

  it('leaves out the lines that its cell prints, but not where a page was loaded since', () => {
    const tail: JobSummary['tail'] = [[0, 1, 'step 1']];
    const made = draw(output(data({ printing: true })));
    notify(summary({}, { tail, awaited: true }));
    expect(root.textContent).toContain('step 1');
    doing(() => made.set(readSaved(data({ printing: true }))));
    expect(root.textContent).not.toContain('step 1');
    notify(summary({}, { tail })); // the kernel is gone
    expect(root.textContent).toContain('step 1');
    notify(summary({}, { tail, awaited: true }));
    notify(summary(ended(), { tail }));
    expect(root.textContent).not.toContain('step 1');
    doing(() => made.set(readSaved(data()))); // the cell has let go of the job
    expect(root.textContent).toContain('step 1');
  });

  it('shows the static card before the job has a key', () => {
    const made = draw(output(data({ key: null })));
    expect(made.shown).toBeNull();
    expect(root.textContent).toBe('');
    expect(FakeSocket.all).toHaveLength(0);
  });

  it('shows what the notebook saved at once, and says so when no server knows the job', () => {
    const made = draw(output(data({ last })));
    expect(made.shown).toMatchObject({ origin: 'loading' });
    expect(root.textContent).toContain('Succeeded');
    expect(root.textContent).not.toContain('as saved in the notebook');
    refuse();
    expect(root.textContent).toContain('as saved in the notebook');
    expect(root.textContent).toContain('brought back params');
    expect(root.querySelectorAll('.jaxtrain-job-summary-buttons button')).toHaveLength(0);
  });

  it('stops the clock of a job that was running when the notebook was saved', () => {
    const saved = summary({ progress: progress(100, NOW - 100) });
    draw(output(data({ last: saved })));
    refuse();
    expect(root.textContent).toContain('Running');
    expect(root.querySelector('.jaxtrain-job-summary-facts')?.textContent).toContain('30 s');
    expect(root.textContent).not.toContain('Keeps running');
  });

  it('shows the static card when nothing of the job is known, or of a server', async () => {
    const unknown = draw(output(data()));
    refuse();
    expect(unknown.shown).toBeNull();
    unknown.setVisible(false);

    const made = draw(output(data()));
    problem = { kind: 'missing', message: 'Not Found', hint: null };
    await act(async () => {
      FakeSocket.last.drop();
      await Promise.resolve();
    });
    expect(made.shown).toBeNull();
  });

  it('keeps a job when the connection is lost, says so, and goes on', () => {
    draw(output(data()));
    notify(summary());
    doing(() => FakeSocket.last.drop());
    expect(root.textContent).toContain('Running');
    expect(root.textContent).toContain('Disconnected: this may be out of date.');
    doing(() => live.reconnect());
    doing(() => FakeSocket.last.accept());
    notify(summary(ended()));
    expect(root.textContent).toContain('Succeeded');
    doing(() => FakeSocket.last.drop());
    expect(root.textContent).not.toContain('No connection');
  });

  it('says that a job is gone which was deleted meanwhile', () => {
    draw(output(data()));
    notify(summary(ended()));
    refuse();
    expect(root.textContent).toContain('Succeeded');
    expect(root.textContent).toContain('no longer exists');
    expect(root.querySelectorAll('.jaxtrain-job-summary-buttons button')).toHaveLength(0);
  });
});

it('reads of a notebook what can be read, and takes the rest for nothing', () => {
  const nothing = {
    key: null,
    name: '',
    uid: null,
    printing: false,
    printed: false,
    last: null
  };
  expect(readSaved('x')).toEqual(nothing);
  expect(readSaved({ key: 7, name: [], printed: 'yes', last: { row: {} } })).toEqual(nothing);
  expect(readSaved({ ...data(), last }).last?.row.actions).toEqual([]);
});

it('reads what an older version saved, which called a field `waited`', () => {
  const old = { ...last, awaited: undefined, waited: true };
  const read = readSaved({ ...data(), last: old }).last;
  expect(read).toMatchObject({ results: 'params', awaited: false });
});
