import { readFileSync } from 'node:fs';

import { Notification } from '@jupyterlab/apputils';
import type { IRenderMime } from '@jupyterlab/rendermime';
import { Widget } from '@lumino/widgets';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { MIME } from '../../src/core/output/store';
import plugins from '../../src/index';
import { connection, type IConnection } from '../../src/lab/connection';
import { jobs } from '../../src/lab/jobs';
import { logs } from '../../src/lab/logs';
import { mime } from '../../src/lab/mime';
import { runtimes } from '../../src/lab/runtimes';
import { status } from '../../src/lab/status';
import { FakeLab, opened } from '../fakes/lab';
import { emptyLog } from '../fakes/logserver';
import { all, cell, changed, ended, NOW, row, session } from '../fakes/make';
import { FakeSocket } from '../fakes/socket';
import { summary } from '../fakes/summary';

const TRACKER = {
  activeCell: null,
  activeCellChanged: { connect: () => true, disconnect: () => true },
  currentChanged: { connect: () => true, disconnect: () => true },
  currentWidget: null
};

let lab: FakeLab;
let made: IConnection | undefined;

/** Have all plugins, in JupyterLab or where nothing is that they could do without. */
async function start(full: boolean): Promise<void> {
  const { app, labShell, palette, launcher, registry, router, bar } = lab;
  const or = <T>(service: T) => (full ? service : null);
  const ours = await connection.activate(app, null, or(labShell), null, or(palette));
  made = ours;
  const rest = [null, or(labShell), null, or(palette)];
  await logs.activate(app, ours, ...rest, or(registry), or(router));
  await jobs.activate(app, ours, ...rest, or(launcher), or(registry));
  await runtimes.activate(app, ours, TRACKER, ...rest, or(launcher), or(registry));
  await status.activate(app, ours, or(bar), null);
  await vi.waitFor(() => expect(FakeSocket.all.length).toBeGreaterThan(0));
  FakeSocket.last.accept();
}

beforeEach(() => {
  localStorage.clear();
  FakeSocket.all = [];
  lab = new FakeLab();
});

afterEach(() => {
  lab.dispose();
  made?.live.dispose();
  made = undefined;
});

interface Items {
  command?: string;
  submenu?: { id: string; items: Items[] };
}

function commandsOf(items: Items[]): string[] {
  return items.flatMap(({ command, submenu }) => [
    ...(command ? [command] : []),
    ...commandsOf(submenu?.items ?? [])
  ]);
}

interface Schema {
  properties: Record<string, { title?: string; description?: string; default?: unknown }>;
  'jupyter.lab.menus'?: { main?: { items: Items[] }[]; context?: Items[] };
  'jupyter.lab.shortcuts'?: { command: string; keys: string[] }[];
}

function schemaOf(name: string): Schema {
  return JSON.parse(readFileSync(`schema/${name}.json`, 'utf8')) as Schema;
}

const NAMES = ['connection', 'jobs', 'logs', 'runtimes'];

describe('the plugins', () => {
  it('need of JupyterLab only what they cannot do without', () => {
    const needs = Object.fromEntries(
      plugins.map(({ id, requires = [] }) => [id, requires.map(({ name }) => name)])
    );
    const ours = 'jupyter-jax-trainer:IConnection';
    expect(needs).toMatchObject({
      'jupyter-jax-trainer:connection': [],
      'jupyter-jax-trainer:jobs': [ours],
      'jupyter-jax-trainer:logs': [ours],
      'jupyter-jax-trainer:runtimes': [ours, '@jupyterlab/notebook:INotebookTracker'],
      'jupyter-jax-trainer:status': [ours]
    });
  });

  it('have commands for all that menus and keys name, with words for each in the palette', async () => {
    await start(true);
    for (const name of NAMES) {
      const { 'jupyter.lab.menus': menus, 'jupyter.lab.shortcuts': keys = [] } = schemaOf(name);
      const main = menus?.main?.flatMap(({ items }) => items) ?? [];
      const named = commandsOf([...main, ...(menus?.context ?? []), ...keys]);
      expect(named.length).toBeGreaterThan(0);
      named.forEach(command => expect(lab.commands.hasCommand(command), command).toBe(true));
    }
    expect(lab.items.length).toBe(6);
    for (const { command } of [...lab.items, ...lab.cards]) {
      expect(lab.commands.label(command)).not.toBe('');
      expect(lab.commands.caption(command)).not.toBe('');
    }
    expect(lab.cards.map(({ command }) => command)).toEqual([
      'jaxtrain:show-jobs',
      'jaxtrain:show-runtimes'
    ]);
  });

  it('have settings with words and defaults', () => {
    const settings = NAMES.flatMap(name => Object.entries(schemaOf(name).properties));
    expect(settings.map(([name]) => name)).toEqual(['notify', 'times', 'wrap', 'raw', 'line']);
    for (const [, { title, description, default: value }] of settings) {
      expect(title && description).toBeTruthy();
      expect(value).toBeDefined();
    }
  });

  it('share one WebSocket and one list', async () => {
    await start(true);
    expect(FakeSocket.all).toHaveLength(1);
    expect(FakeSocket.last.url).toBe('ws://here/user/ann/jaxtrain/api/live?token=a%20b');
    expect(FakeSocket.last.sent.filter(({ topic }) => topic === 'jobs')).toHaveLength(1);
  });

  it('work where there is nothing that they could do without', async () => {
    await start(false);
    await lab.commands.execute('jaxtrain:open-log', { key: 'mnist-4' });
    await lab.commands.execute('jaxtrain:open-job', { key: 'mnist-4' });
    const areas = lab.placed.map(({ widget, area }) => `${widget.id} ${area}`);
    expect(areas).toEqual([
      'jaxtrain-panel left',
      'jaxtrain-runtimes left',
      'jaxtrain-log-mnist-4 down',
      'jaxtrain-job-mnist-4 down'
    ]);
  });
});

class FakeCard extends Widget implements IRenderMime.IRenderer {
  renderModel = () => Promise.resolve();
}

/** Put the output of a cell that waits for a job into the page, in view. */
async function waitingOutput(): Promise<IRenderMime.IRenderer> {
  const watch: ((entries: { isIntersecting: boolean }[]) => void)[] = [];
  vi.stubGlobal(
    'IntersectionObserver',
    class {
      constructor(callback: (typeof watch)[number]) {
        watch.push(callback);
      }
      observe() {}
      disconnect() {}
    }
  );
  let factory: IRenderMime.IRendererFactory | undefined;
  const registry = {
    addFactory: (added: IRenderMime.IRendererFactory) => (factory = added),
    getFactory: () => ({ createRenderer: () => new FakeCard() })
  };
  await mime.activate(lab.app, registry, made, null);
  const output = factory?.createRenderer({} as IRenderMime.IRendererOptions);
  if (!output) {
    throw new Error('there is no renderer');
  }
  const saved = { key: 'mnist-4', name: 'mnist-4' };
  await output.renderModel({
    trusted: true,
    data: { [MIME]: saved },
    metadata: {},
    setData: () => {}
  });
  Widget.attach(output, document.body);
  vi.spyOn(output.node, 'getBoundingClientRect').mockReturnValue(new DOMRect(0, 100, 500, 200));
  watch.forEach(callback => callback([{ isIntersecting: true }]));
  const shown = summary({}, { awaited: true });
  FakeSocket.last.say({ id: opened('summary'), kind: 'summary', summary: shown });
  return output;
}

describe('the job list and what is said of jobs', () => {
  const say = () => vi.spyOn(Notification, 'success').mockReturnValue('');

  it('is in the side bar, and opens jobs in tabs, each once', async () => {
    await start(true);
    await lab.commands.execute('jaxtrain:show-jobs');
    expect(lab.expandLeft).toHaveBeenCalled();
    expect(lab.active).toEqual(['jaxtrain-panel']);
    FakeSocket.last.say(all(opened('jobs'), [row()]));
    await vi.waitFor(() =>
      expect(lab.widget('jaxtrain-panel').node.querySelector('[data-key]')).not.toBeNull()
    );
    lab.widget('jaxtrain-panel').node.querySelector<HTMLElement>('[data-key]')?.click();
    await vi.waitFor(() => expect(lab.active).toContain('jaxtrain-job-mnist-4'));
    await lab.commands.execute('jaxtrain:open-job', { key: 'mnist-4' });
    expect(lab.placed.filter(({ area }) => area === 'main')).toHaveLength(1);
  });

  it('looks again for a job that was deleted when it is opened again', async () => {
    await start(true);
    await lab.commands.execute('jaxtrain:open-job', { key: 'mnist-4' });
    const first = opened('job');
    await lab.commands.execute('jaxtrain:open-job', { key: 'mnist-4' });
    expect(opened('job')).toBe(first);
    FakeSocket.last.say({ id: first, kind: 'error', message: 'It is gone.', hint: null });
    await lab.commands.execute('jaxtrain:open-job', { key: 'mnist-4' });
    expect(opened('job')).not.toBe(first);
  });

  it('says once when a job has ended, unless the setting says no', async () => {
    lab.settings = { notify: 'all' };
    const success = say();
    await start(true);
    const id = opened('jobs');
    FakeSocket.last.say(all(id, [row(), row({ key: 'b' })]));
    FakeSocket.last.say(changed(id, [ended()]));
    await vi.waitFor(() => expect(success).toHaveBeenCalledTimes(1));
    lab.set({ notify: 'none' });
    FakeSocket.last.say(changed(id, [ended({ key: 'b' })]));
    lab.set({ notify: 'all' });
    FakeSocket.last.say(changed(id, [row({ key: 'c' })]));
    FakeSocket.last.say(changed(id, [ended({ key: 'c' })]));
    await vi.waitFor(() => expect(success).toHaveBeenCalledTimes(2));
    expect(success.mock.calls.map(([message]) => message.split(' ')[0])).toEqual(['mnist-4', 'c']);
  });

  it('says of a session why it has ended, and of its cells what takes long or fails', async () => {
    lab.settings = { notify: 'all' };
    const success = say().mockClear();
    const error = vi.spyOn(Notification, 'error').mockReturnValue('').mockClear();
    const info = vi.spyOn(Notification, 'info').mockReturnValue('').mockClear();
    await start(true);
    const id = opened('jobs');
    const runs = { state: 'Running', active: true } as const;
    const before = [session(), cell(1, runs), cell(2, runs), cell(3, runs)];
    FakeSocket.last.say(all(id, before));
    FakeSocket.last.say(
      changed(id, [cell(1), cell(2, { elapsed: 75 }), cell(3, { state: 'Failed' })])
    );
    const reason = 'idle for 30 m';
    const over = { state: 'Succeeded', active: false, ended: NOW, reason } as const;
    FakeSocket.last.say(changed(id, [session(over)]));
    await vi.waitFor(() => expect(info).toHaveBeenCalled());
    expect(info.mock.lastCall?.[0]).toBe('Session lab ended after 2 m 10 s: idle for 30 m');
    expect(success.mock.calls.map(([message]) => message.split(' ')[0])).toEqual(['lab-cell-2']);
    expect(error.mock.calls.map(([message]) => message.split(' ')[0])).toEqual(['lab-cell-3']);
  });

  it('says once that an idle session ends soon, which a click prolongs', async () => {
    lab.settings = { notify: 'all' };
    const warning = vi.spyOn(Notification, 'warning').mockReturnValue('first').mockClear();
    const dismiss = vi.spyOn(Notification, 'dismiss').mockClear();
    await start(true);
    const id = opened('jobs');
    const now = Date.now() / 1000;
    const idle = (left: number) => {
      const state = { idle_since: now - 1500, idle_ends: now + left, running: null, waiting: 0 };
      FakeSocket.last.say(changed(id, [session({ session: state, reason: `${left}` })]));
    };
    FakeSocket.last.say(all(id, [session()]));
    idle(900);
    idle(290);
    await vi.waitFor(() => expect(warning).toHaveBeenCalledTimes(1));
    FakeSocket.last.say(changed(id, [row()]));
    expect(dismiss).not.toHaveBeenCalled();
    idle(1800);
    await vi.waitFor(() => expect(dismiss.mock.calls).toEqual([['first']]));
    idle(200);
    await vi.waitFor(() => expect(warning).toHaveBeenCalledTimes(2));
    const [said, options] = warning.mock.calls[0] ?? [];
    expect(said).toMatch(/^Session lab is idle and ends in 4 m/);
    expect(options?.actions?.map(({ label }) => label)).toEqual(['Prolong', 'Open']);
  });

  it('is quiet about a job whose waiting cell is in view', async () => {
    lab.settings = { notify: 'all' };
    const success = say().mockClear();
    await start(true);
    const output = await waitingOutput();
    const id = opened('jobs');
    FakeSocket.last.say(all(id, [row(), row({ key: 'b' })]));
    FakeSocket.last.say(changed(id, [ended()]));
    FakeSocket.last.say(changed(id, [ended({ key: 'b' })]));
    await vi.waitFor(() => expect(success).toHaveBeenCalled());
    expect(success.mock.calls.map(([message]) => message.split(' ')[0])).toEqual(['b']);
    output.dispose();
  });

  it('says what has ended while no page was open', async () => {
    const success = say().mockClear();
    const rows = [row(), row({ key: 'b' })];
    await start(true);
    FakeSocket.last.say(all(opened('jobs'), [...rows, ended({ key: 'old' })]));
    made?.live.dispose();
    lab.dispose();
    lab = new FakeLab(); // a reload
    await start(true);
    FakeSocket.last.say(all(opened('jobs'), [ended(), row({ key: 'b' }), ended({ key: 'old' })]));
    await vi.waitFor(() => expect(success).toHaveBeenCalledTimes(1));
    expect(success.mock.calls[0]?.[0]).toContain('mnist-4');
  });

  it('is in the status bar while jobs are active, and leads to the list', async () => {
    await start(true);
    const [item] = lab.status;
    expect(item?.isActive?.()).toBe(false);
    const id = opened('jobs');
    FakeSocket.last.say(all(id, [row(), row({ key: 'b' }), row({ key: 'q', state: 'Queued' })]));
    expect(item?.isActive?.()).toBe(true);
    const button = () => item?.item.node.querySelector('button');
    await vi.waitFor(() => expect(button()?.textContent).toBe('2 training jobs running'));
    expect(button()?.title).toContain('q · Queued');
    button()?.click();
    await vi.waitFor(() => expect(lab.active).toEqual(['jaxtrain-panel']));
    FakeSocket.last.say(all(id, [ended()]));
    expect(item?.item.isHidden).toBe(true);
  });

  it('has what is used of this machine in the status bar while nothing runs', async () => {
    await start(true);
    const [item] = lab.status;
    const list = opened('jobs');
    const look = { kind: 'here', cpu: 0.5, cores: 2, used: 3.25 * 2 ** 30, limit: 16 * 2 ** 30 };
    FakeSocket.last.say({ id: opened('here'), ...look });
    expect(item?.isActive?.()).toBe(true);
    const button = () => item?.item.node.querySelector('button');
    await vi.waitFor(() => expect(button()?.textContent).toBe('CPU 25 % · memory 3.3 of 16 GiB'));
    FakeSocket.last.say(all(list, [row()]));
    await vi.waitFor(() => expect(button()?.textContent).toBe('1 training job running'));
    expect(FakeSocket.last.sent.at(-1)).toMatchObject({ op: 'close' });
    FakeSocket.last.say(all(list, [ended()]));
    expect(FakeSocket.last.sent.at(-1)).toMatchObject({ op: 'open', topic: 'here' });
  });
});

describe('the log viewer', () => {
  const node = () => lab.widget('jaxtrain-log-mnist-4').node;

  it('opens the log of the last job, named by it', async () => {
    await start(true);
    const open = lab.commands.execute('jaxtrain:open-last-log');
    FakeSocket.last.say(all(opened('jobs'), [row(), row({ key: 'old', created: 1 })]));
    await open;
    expect(lab.active).toEqual(['jaxtrain-log-mnist-4']);
    emptyLog(opened('log')).forEach(message => FakeSocket.last.say(message));
    expect(lab.widget('jaxtrain-log-mnist-4').title.label).toBe('log of mnist');
  });

  it('looks again when it is opened again after its job was deleted', async () => {
    await start(true);
    await lab.commands.execute('jaxtrain:open-log', { key: 'mnist-4' });
    const first = opened('log');
    const gone = { kind: 'error', message: 'There is no such job (any more).', hint: null };
    FakeSocket.last.say({ id: first, ...gone });
    await lab.commands.execute('jaxtrain:open-log', { key: 'mnist-4' });
    expect(opened('log')).not.toBe(first);
    emptyLog(opened('log')).forEach(message => FakeSocket.last.say(message));
    await vi.waitFor(() => expect(node().textContent).toContain('No output'));
  });

  it('says so where there is no job yet', async () => {
    const info = vi.spyOn(Notification, 'info').mockReturnValue('');
    await start(true);
    const open = lab.commands.execute('jaxtrain:open-last-log');
    FakeSocket.last.say(all(opened('jobs'), []));
    await open;
    expect(info).toHaveBeenCalledWith('No training jobs yet', expect.anything());
  });

  it('opens at the line of an address, once', async () => {
    await start(true);
    const [route] = lab.routes;
    const search = '?jaxtrain-log=mnist-4&line=37&container=setup';
    expect(route?.pattern.test(`/lab/tree/a.ipynb${search}`)).toBe(true);
    await lab.commands.execute(route?.command ?? '', { search });
    expect(FakeSocket.last.sent.at(-1)).toMatchObject({ op: 'close' });
    expect(FakeSocket.last.sent.filter(({ topic }) => topic === 'log').at(-1)).toMatchObject({
      key: 'mnist-4',
      sources: ['setup'],
      raw: true
    });
    expect(lab.navigate).toHaveBeenCalledWith('/', { skipRouting: true });
  });

  it('follows its settings where nobody has said otherwise', async () => {
    lab.settings = { times: 'since', wrap: true, raw: false };
    await start(true);
    await Promise.resolve();
    await lab.commands.execute('jaxtrain:open-log', { key: 'mnist-4' });
    const log = opened('log');
    emptyLog(log).forEach(message => FakeSocket.last.say(message));
    await vi.waitFor(() => expect(node().textContent).toContain('since start'));
    lab.set({ times: 'off' });
    await vi.waitFor(() => expect(node().textContent).toContain('no timestamps'));
    lab.set({ raw: true });
    await vi.waitFor(() =>
      expect(FakeSocket.last.sent.filter(({ topic }) => topic === 'log').at(-1)).toMatchObject({
        raw: true
      })
    );
  });
});
