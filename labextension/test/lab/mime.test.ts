import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { type IRenderMime } from '@jupyterlab/rendermime';
import { Widget } from '@lumino/widgets';
import { act } from 'preact/test-utils';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Api } from '../../src/core/base/api';
import { Live } from '../../src/core/base/live';
import type { JobSummary } from '../../src/core/base/protocol';
import { MIME } from '../../src/core/output/store';
import { isWaitInView, mime } from '../../src/lab/mime';
import { notifyEnd } from '../../src/lab/notifications';
import { ended, fakeHost, row } from '../fakes/make';
import { FakeSocket } from '../fakes/socket';
import { summary } from '../fakes/summary';

// What they bring with them needs a bundler.
class FakeObserver {
  static all: FakeObserver[] = [];
  readonly told: (entries: { isIntersecting: boolean }[]) => void;
  gone = false;

  constructor(told: FakeObserver['told']) {
    this.told = told;
    FakeObserver.all.push(this);
  }

  observe() {}

  disconnect() {
    this.gone = true;
  }
}

/** JupyterLab's renderer of HTML, as far as we use it. */
class FakeHtml extends Widget implements IRenderMime.IRenderer {
  static models: IRenderMime.IMimeModel[] = [];

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    FakeHtml.models.push(model);
    this.node.textContent = `html: ${model.data['text/html'] as string}`;
    return Promise.resolve();
  }
}

let live: Live;
let factory: IRenderMime.IRendererFactory;
let rank: number | undefined;
let asked: string[];
let executed: unknown[][];
const made: Widget[] = [];

beforeEach(async () => {
  vi.stubGlobal('IntersectionObserver', FakeObserver);
  FakeSocket.all = [];
  FakeObserver.all = [];
  FakeHtml.models = [];
  asked = [];
  executed = [];
  live = new Live({ url: () => 'ws://server', connect: url => new FakeSocket(url) });
  const api = new Api((path, init) => {
    asked.push(`${init?.method ?? 'GET'} ${path}`);
    return Promise.resolve(new Response('{}'));
  });
  const commands = {
    hasCommand: () => true,
    execute: (...args: unknown[]) => {
      executed.push(args);
      return Promise.resolve();
    }
  };
  const registry = {
    addFactory: (...args: [IRenderMime.IRendererFactory, number?]) => {
      [factory, rank] = args;
    },
    getFactory: () => ({ createRenderer: () => new FakeHtml() })
  };
  const app = { commands } as unknown as JupyterFrontEnd;
  await mime.activate(app, registry, { api, live }, null);
});

afterEach(() => {
  void act(() => made.splice(0).forEach(widget => widget.dispose()));
  live.dispose();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

function modelOf(data: object, html = '<b>card</b>'): IRenderMime.IMimeModel {
  return {
    trusted: true,
    data: { [MIME]: { key: 'mnist-4', name: 'mnist-4', ...data }, 'text/html': html },
    metadata: {},
    setData: () => {}
  };
}

async function output(data: object = {}): Promise<IRenderMime.IRenderer> {
  const renderer = factory.createRenderer({} as IRenderMime.IRendererOptions);
  made.push(renderer);
  await act(async () => {
    await renderer.renderModel(modelOf(data));
    Widget.attach(renderer, document.body);
  });
  return renderer;
}

const bounds = (top: number, bottom: number) =>
  vi
    .spyOn(Element.prototype, 'getBoundingClientRect')
    .mockReturnValue({ top, bottom } as unknown as DOMRect);

const near = (isIntersecting: boolean, nth = -1) =>
  act(() => FakeObserver.all.at(nth)?.told([{ isIntersecting }]));

async function notify(shown: JobSummary): Promise<void> {
  await act(() => {
    FakeSocket.last.accept();
    FakeSocket.last.say({ id: FakeSocket.last.sent[0]?.['id'], kind: 'summary', summary: shown });
  });
}

describe('the output of a cell in JupyterLab', () => {
  it('comes before widgets and HTML, and is drawn in notebooks that nobody trusts, too', () => {
    expect(factory.mimeTypes).toEqual([MIME]);
    expect(factory.safe).toBe(true);
    expect(rank).toBeLessThan(-10);
  });

  it('asks the server only while it is near the window', async () => {
    const renderer = await output();
    expect(FakeSocket.all).toHaveLength(0);
    await near(true);
    expect(FakeSocket.all).toHaveLength(1);
    await notify(summary());
    expect(renderer.node.textContent).toContain('Running');
    await near(false);
    expect(FakeSocket.last.closed).toBe(true);
    await near(true);
    expect(FakeSocket.all).toHaveLength(2);
    await act(() => renderer.dispose());
    expect(FakeSocket.last.closed).toBe(true);
    expect(FakeObserver.all.every(each => each.gone)).toBe(true);
  });

  it('acts through the server, and opens the job beside the notebook', async () => {
    const renderer = await output();
    await near(true);
    await notify(summary({ actions: ['suspend'] }, { awaited: true }));
    const press = (name: string) =>
      act(() => {
        const buttons = [...renderer.node.querySelectorAll('button')];
        buttons.find(each => each.textContent === name)?.click();
      });
    await press('Detach');
    await press('Suspend');
    await press('Open');
    expect(asked).toEqual(['POST jobs/mnist-4/detach', 'POST jobs/mnist-4/suspend']);
    expect(executed).toEqual([['jaxtrain:open-job', { key: 'mnist-4', split: true }]]);
  });

  it('replaces the notification of a job while its waiting cell is in view', async () => {
    const success = vi.spyOn(Notification, 'success').mockReturnValue('');
    const notified = async (uid: string) => {
      success.mockClear();
      localStorage.clear();
      await notifyEnd(ended({ uid }), fakeHost(), 'all', isWaitInView);
      return success.mock.calls.length > 0;
    };
    const { uid } = row();
    const renderer = await output();
    await near(true);
    bounds(100, 300);
    await notify(summary({}, { awaited: false }));
    expect(await notified(uid ?? '')).toBe(true); // nobody waits there
    await notify(summary({}, { awaited: true }));
    expect(await notified(uid ?? '')).toBe(false);
    expect(await notified('another')).toBe(true);
    await notify(summary(ended(), { awaited: false }));
    expect(await notified(uid ?? '')).toBe(false); // the end may arrive here first
    bounds(-300, -100);
    expect(await notified(uid ?? '')).toBe(true); // scrolled away
    bounds(100, 300);
    renderer.hide();
    expect(await notified(uid ?? '')).toBe(true); // its notebook is behind another tab
  });

  it('has the static card drawn as HTML that nobody trusts, until there is more', async () => {
    const renderer = await output({ key: null });
    expect(renderer.node.textContent).toBe('html: <b>card</b>');
    expect(FakeHtml.models[0]?.trusted).toBe(false);
    await act(() => renderer.renderModel(modelOf({ key: null }, '<b>sending</b>')));
    expect(renderer.node.textContent).toBe('html: <b>sending</b>');
    await act(() => renderer.renderModel(modelOf({}, '<b>pending</b>')));
    await near(true);
    expect(renderer.node.textContent).toBe('html: <b>pending</b>');
    await notify(summary());
    expect(renderer.node.textContent).toContain('Running');
    expect(renderer.node.textContent).not.toContain('html');
  });

  it('shows the card when the server does not know the job, and the saved job if there is one', async () => {
    const renderer = await output();
    await near(true);
    const refuse = () =>
      act(() => {
        FakeSocket.last.accept();
        const id = FakeSocket.last.sent[0]?.['id'];
        FakeSocket.last.say({ id, kind: 'error', message: 'No such job.', hint: null });
      });
    await refuse();
    expect(renderer.node.textContent).toBe('html: <b>card</b>');
    await act(() => renderer.renderModel(modelOf({ last: summary(ended()) })));
    expect(renderer.node.textContent).toContain('as saved in the notebook');
    expect(renderer.node.textContent).not.toContain('html');
    const buttons = [...renderer.node.querySelectorAll('button')].map(each => each.textContent);
    expect(buttons).not.toContain('Open');
  });
});
