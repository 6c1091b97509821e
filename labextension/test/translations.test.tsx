/** Every view in a pseudo-language: what a translator has not seen is no word of ours. */

import { render } from 'preact';
import { act } from 'preact/test-utils';
import { afterEach, describe, expect, it, vi } from 'vitest';
import * as trans from '../src/core/base/translator';
import * as jobview from './fakes/jobview';
import * as logpage from './fakes/logpage';
import * as panel from './fakes/jobspage';
import * as picker from './fakes/pickerpage';
import { confirmationFor } from '../src/core/base/actions';
import type { Row, State } from '../src/core/base/protocol';
import { menuOf } from '../src/core/jobs/list';
import { JobCard } from '../src/core/output/card';
import { connection } from '../src/lab/connection';
import { jobs } from '../src/lab/jobs';
import { logs } from '../src/lab/logs';
import { runtimes } from '../src/lab/runtimes';
import { status } from '../src/lab/status';
import { FakeLab } from './fakes/lab';
import { cell, ended, fakeHost, NOW, row, session } from './fakes/make';
import { place } from './fakes/picker';
import { FakePlot } from './fakes/plot';
import { FakeSocket } from './fakes/socket';
import { progress, summary } from './fakes/summary';
import { greek, rest, unmarked } from './fakes/translator';

vi.mock('uplot', async () => ({ default: (await import('./fakes/plot')).FakePlot }));
vi.mock('../src/core/base/translator', async importOriginal => {
  const { english } = await importOriginal<typeof trans>();
  const { marked } = await import('./fakes/translator');
  return { english: marked(english) };
});

const STATES: State[] = [
  ...(['Queued', 'Pending', 'Starting', 'Running', 'Suspended'] as const),
  ...(['Succeeded', 'Failed', 'Cancelled', 'damaged'] as const)
];

/** Return a job with all that one can have, in other letters. */
function full(state: State = 'Running'): Row {
  const active = !['Succeeded', 'Failed', 'Cancelled', 'damaged'].includes(state);
  return greek({
    ...(active ? row() : ended()),
    state,
    name: `job-${state}`,
    key: state,
    reason: 'The server says why.',
    hint: 'And what to `do`.',
    progress: progress(500),
    notebook: 'a/b.ipynb',
    cell: 'c1',
    actions: active ? ['trust', 'cancel', 'suspend', 'resume'] : ['trust', 'delete'],
    trust: active ? 'foreign' : 'signed',
    maker: 'somebody@else'
  });
}

it('the marks tell what is ours, and what is not', () => {
  const root = document.createElement('div');
  root.append('«Job %1 of «two»» ', greek('text of a job'), ' «a', document.createElement('pre'));
  root.append('b»');
  expect(unmarked(root)).toEqual([]);
  root.append('Open');
  root.firstElementChild?.setAttribute('aria-label', 'Close');
  expect(unmarked(root)).toEqual(['Close', 'Open']);
});

describe('the list of jobs', () => {
  panel.usePanel();

  it('with all states, and filtered', () => {
    panel.show(...STATES.map(full));
    expect(unmarked(panel.root)).toEqual([]);
    panel.type('nothing is like that');
    expect(unmarked(panel.root)).toEqual([]);
  });

  it('with a session and its cells', () => {
    const cells = [...STATES.entries()].map(([number, state]) =>
      greek({ ...full(state), key: `c-${number}`, cell_of: { key: 'lab', uid: 'uid-lab' } })
    );
    panel.show(greek(session()), ...cells);
    expect(panel.rowsShown().length).toBe(1 + 5 + 1);
    expect(unmarked(panel.root)).toEqual([]);
  });

  it('with none', () => {
    panel.show();
    expect(unmarked(panel.root)).toEqual([]);
  });

  it.each(['missing', 'refused', 'unreachable', 'shut', 'other'] as const)(
    'that is %s',
    async kind => {
      await panel.lose(greek({ kind, message: 'The server says no.', hint: 'Do this.' }));
      expect(unmarked(panel.root)).toEqual([]);
    }
  );

  it('has a menu for each job, and asks', () => {
    const host = { ...fakeHost(), openLog: vi.fn(), openNotebook: vi.fn() };
    for (const each of STATES.map(full)) {
      const said = menuOf(each, host).map(({ label }) => label);
      for (const action of each.actions) {
        said.push(...Object.values<string>({ ...confirmationFor(each, action, trans.english) }));
      }
      expect(said.filter(text => /[a-z]/i.test(rest(text)))).toEqual([]);
    }
  });
});

describe('a job', () => {
  jobview.useJob(() => ({ openLog: vi.fn(), openNotebook: vi.fn(), save: vi.fn() }));

  it.each(STATES)('that is %s', state => {
    const rank = { pod: 'x-0-0', host: 'node', restarts: 1 };
    const names = ['Waiting', 'Starting', 'Arrived', 'Joined', 'Running', 'Finished', 'Failed'];
    jobview.show(
      greek({
        row: full(state),
        spec: { nodes: 4, env: { A: 'b' } },
        sent: [{ name: 'x', kind: 'array', type: 'float32[2]', size: 188_000_000 }],
        logs: [{ source: 'init', label: 'init', size: 12 }]
      }),
      greek({
        state,
        ranks: [...names, 'Stopped'].map((each, number) => ({
          ...rank,
          rank: number,
          state: each,
          exit: number === 6 ? -9 : null
        })),
        initializers: [{ name: 'dataset', state: 'Finished', exit: 0, ...rank }],
        progress: progress(500),
        results: [
          { name: 'a', type: 'dict', size: 1200 },
          { name: 'b', error: 'It was too large.' }
        ],
        failure:
          state === 'Failed'
            ? { rank: 2, kind: 'error', message: 'KeyError', exit: 1, others: [0, 1, 3] }
            : null
      })
    );
    const event = greek({ time: NOW, kind: 'restart', rank: 2, message: 'was preempted' });
    jobview.say({ kind: 'events', from: 0, events: [event] });
    expect(unmarked(jobview.root)).toEqual([]);
  });

  it('that says where its time goes', () => {
    const late = [0, 1].map(rank => ({ rank, step: 2, host: 0.5, late: 0.25 }));
    const functions = [{ name: greek('step'), count: 1, seconds: 2 }];
    const names = ['waiting', 'starting', 'importing', 'compiling', 'host', 'steps', 'checkpoints'];
    const parts = Object.fromEntries([...names, 'other'].map(name => [name, 2]));
    for (const hits of [0, 1]) {
      jobview.show({
        row: full(),
        spending: { parts, goodput: 0.5, late, functions },
        compile_cache: { hits, misses: 2, saved: 0.5 }
      });
      for (const fold of jobview.all('[data-section=spending] button[aria-expanded=false]')) {
        jobview.doing(() => fold.click());
      }
      expect(jobview.find('[data-section=spending]').textContent).toContain('Compile cache');
      expect(unmarked(jobview.root)).toEqual([]);
    }
  });

  it('with plots', async () => {
    vi.stubGlobal('IntersectionObserver', undefined);
    FakePlot.all = [];
    jobview.show(greek({ row: full() }));
    expect(unmarked(jobview.root)).toEqual([]);
    const points = [0, 1, 2].map(step => {
      return {
        time: NOW + step,
        rank: step % 2,
        step,
        total: 9,
        values: { [greek('loss')]: step }
      };
    });
    jobview.say({ kind: 'metrics', from: 0, points });
    await jobview.settle(300);
    await vi.waitFor(() => expect(FakePlot.live).toHaveLength(1), 3000);
    for (const button of jobview.all('[data-section=metrics] button[aria-expanded]')) {
      jobview.doing(() => button.click());
    }
    expect(unmarked(jobview.root)).toEqual([]);
    vi.unstubAllGlobals();
  });

  it('that is a session, or a cell of one', () => {
    const value = { kind: 'array', type: 'float32[2]', size: 8, sharding: 'P', device_size: 8 };
    const variables = [false, true].map(deleted => {
      return greek({ name: `v-${deleted}`, cell: 1, ...value, deleted, ranks: [0] });
    });
    const has = { waiting: [], variables, restarts: 1, lost: [greek('w')], saved: null };
    jobview.show(greek({ row: session() }), {
      ranks: [greek({ rank: 0, state: 'Running', exit: null })]
    });
    jobview.show(greek({ row: session(), session: has }));
    expect(jobview.all('[data-section=variables] td').length).toBeGreaterThan(9);
    expect(unmarked(jobview.root)).toEqual([]);
    jobview.say({ kind: 'jobs', all: true, rows: [greek(cell(1))] }, 1);
    expect(unmarked(jobview.root)).toEqual([]);
    jobview.show(greek({ row: cell(1), session: null }));
    expect(unmarked(jobview.root)).toEqual([]);
  });

  it('that is gone', () => {
    jobview.say(greek({ kind: 'error', message: 'There is no such job.', hint: null }));
    expect(unmarked(jobview.root)).toEqual([]);
  });
});

describe('a log', () => {
  logpage.useLog();

  it('with its filters, its keys, a traceback and a line in full', async () => {
    expect(unmarked(logpage.root)).toEqual([]);
    const head = 'Traceback (most recent call last):';
    await logpage.print([...['one', 'two'].map(text => greek(text)), head, '  ', greek('error')]);
    const buttons = () => [...logpage.root.querySelectorAll('.jaxtrain-log-bar button')];
    const [filter, keys] = ['[title*="Filter"]', '[title*="Keys"]'].map(which =>
      logpage.root.querySelector<HTMLElement>(`button${which}`)
    );
    expect(buttons().length).toBeGreaterThan(8);
    await logpage.doing(() => filter?.click());
    await logpage.doing(() => keys?.click());
    await logpage.press('Enter');
    const shown = unmarked(logpage.root).filter(text => text !== head);
    expect(shown).toEqual([]);
  });
});

describe('the picker', () => {
  picker.usePicker();

  async function opened(line: string, prepare: (setup: typeof picker.setup) => void = () => {}) {
    await picker.show(line, setup => {
      const { server } = setup;
      server.findings = [
        { level: 'ok', title: 'jax', detail: '0.10', hint: null },
        { level: 'warning', title: 'Rights', detail: 'some', hint: 'Ask.' }
      ];
      server.asked = [];
      server.translate = greek;
      prepare(setup);
    });
    for (const button of picker.all('[aria-expanded=false]')) {
      await picker.click(button);
    }
  }

  it.each([
    ['a line', picker.CLUSTER],
    ['this machine', '%%jaxtrain'],
    ['no line', '1'],
    ['errors', '%%jaxtrain --nodes=2 wrong']
  ])('with %s', async (_, line) => {
    await opened(line);
    expect(picker.all('.jaxtrain-field').length).toBeGreaterThan(6);
    expect(unmarked(picker.root)).toEqual([]);
  });

  it('with a session', async () => {
    await picker.show(`%%jaxtrain --session=${greek('lab')}`, ({ jobs }) => {
      jobs.rows = [greek(session())];
    });
    for (const part of ['.jaxtrain-session-note', 'optgroup', '.jaxtrain-ask']) {
      expect(unmarked(picker.find(part))).toEqual([]);
    }
  });

  it('with no cluster, and no runtime', async () => {
    await opened('%%jaxtrain', ({ server }) => {
      server.runtimes = [];
      server.places = server.places.slice(0, 1);
    });
    expect(unmarked(picker.root)).toEqual([]);
  });

  it('with a place of no use, a silent one, and one that fails', async () => {
    const line = '%%jaxtrain --backend=kubernetes';
    await opened(line, ({ server }) => {
      server.places = [place({ problem: 'No package.', hint: 'Get it.' })];
    });
    expect(unmarked(picker.root)).toEqual([]);
    picker.setup.server.places = [place()];
    picker.setup.server.silent = /place=/;
    await picker.click(picker.all('.jaxtrain-place button')[0]);
    expect(unmarked(picker.root)).toEqual([]);
    picker.setup.server.silent = null;
    picker.setup.server.failing = '';
    picker.setup.store.refresh();
    await picker.wait();
    expect(unmarked(picker.root)).toEqual([]);
  });
});

describe('the output of a cell', () => {
  const root = document.createElement('div');
  afterEach(() => void act(() => render(null, root)));

  it.each(STATES)('with a job that is %s', state => {
    const host = { trans: trans.english, act: vi.fn(), copy: vi.fn(), open: vi.fn() };
    const tail: [number, number, string][] = [[0, NOW, greek('a line')]];
    const shown = { awaited: true, tail, spark: { name: greek('loss'), points: [[0, 1]] } };
    const of = summary(full(state), shown as object);
    const said = greek({ sent: of.sent, results: of.sent });
    void act(() => render(<JobCard summary={{ ...of, ...said }} host={host} />, root));
    expect(root.querySelector('.jaxtrain-state')).not.toBeNull();
    expect(unmarked(root)).toEqual([]);
  });
});

it('the output of a cell of a session', () => {
  const root = document.createElement('div');
  const host = { trans: trans.english, act: vi.fn(), copy: vi.fn(), open: vi.fn() };
  void act(() =>
    render(<JobCard summary={summary(greek(cell(1)), { sent: '' })} host={host} />, root)
  );
  expect(root.querySelector('.jaxtrain-link')).not.toBeNull();
  expect(unmarked(root)).toEqual([]);
  void act(() => render(null, root));
});

it('the commands, panels and notes of JupyterLab', async () => {
  localStorage.clear();
  FakeSocket.all = [];
  const lab = new FakeLab();
  const translator = { load: () => trans.english };
  const { app, labShell, palette, launcher, registry, router, bar } = lab;
  const ours = await connection.activate(app, translator, labShell, null, palette);
  const rest_ = [translator, labShell, null, palette];
  const tracker = {
    activeCell: null,
    activeCellChanged: { connect: () => true, disconnect: () => true },
    currentChanged: { connect: () => true, disconnect: () => true },
    currentWidget: null
  };
  await logs.activate(app, ours, ...rest_, registry, router);
  await jobs.activate(app, ours, ...rest_, launcher, registry);
  await runtimes.activate(app, ours, tracker, ...rest_, launcher, registry);
  await status.activate(app, ours, bar, translator);
  const commands = lab.commands.listCommands();
  expect(commands.length).toBeGreaterThan(5);
  const said = commands.flatMap(command =>
    [{}, { isLauncher: true }, { isCell: true }].flatMap(args => [
      lab.commands.label(command, args),
      lab.commands.caption(command, args)
    ])
  );
  said.push(...lab.placed.flatMap(({ widget: { title } }) => [title.label, title.caption]));
  expect(said.filter(text => /[a-z]/i.test(rest(text)))).toEqual([]);
  for (const { widget } of lab.placed) {
    expect(unmarked(widget.node)).toEqual([]);
  }
  lab.dispose();
  (ours as { live: { dispose(): void } }).live.dispose();
});
