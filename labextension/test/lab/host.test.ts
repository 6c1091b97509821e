import { Notification } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { english } from '../../src/core/base/translator';
import { logUrl } from '../../src/lab/connection';
import { LabHost } from '../../src/lab/host';
import { FakeLab } from '../fakes/lab';

class FakeNotebook extends Widget {
  readonly context = { ready: Promise.resolve() };
  readonly content = {
    widgets: ['a', 'b', 'c'].map(id => ({ model: { id } })),
    activeCellIndex: 0
  };
  readonly setFragment = vi.fn();
}

function set(opens: () => unknown) {
  const commands = new CommandRegistry();
  const execute = vi.fn(opens);
  commands.addCommand('docmanager:open', { execute });
  const { app } = new FakeLab();
  const settings = app.serviceManager.serverSettings;
  const host = new LabHost(null as never, english, vi.fn(), commands, { settings });
  return { host, execute, settings };
}

afterEach(() => vi.restoreAllMocks());

describe('the notebook of a job', () => {
  it('is opened at the cell, which becomes the active one', async () => {
    const notebook = new FakeNotebook();
    const { host } = set(() => notebook);
    host.openNotebook?.('a.ipynb', 'b');
    await vi.waitFor(() => expect(notebook.setFragment).toHaveBeenCalledWith('#cell-id=b'));
    expect(notebook.content.activeCellIndex).toBe(1);
  });

  it('is opened as it is where the cell is gone, which is said', async () => {
    const info = vi.spyOn(Notification, 'info').mockReturnValue('');
    const notebook = new FakeNotebook();
    const { host } = set(() => notebook);
    host.openNotebook?.('a.ipynb', 'gone');
    await vi.waitFor(() => expect(info).toHaveBeenCalledTimes(1));
    expect(notebook.content.activeCellIndex).toBe(0);
    expect(notebook.setFragment).not.toHaveBeenCalled();
  });

  it('says so where it cannot be opened', async () => {
    const error = vi.spyOn(Notification, 'error').mockReturnValue('');
    const { host } = set(() => {
      throw new Error('No such file.');
    });
    host.openNotebook?.('a.ipynb', null);
    await vi.waitFor(() =>
      expect(error).toHaveBeenCalledWith('Could not open a.ipynb: Error: No such file.')
    );
  });
});

describe('the trace of a rank', () => {
  it('is saved by a link to its address, which leaves nothing in the page', () => {
    const { host } = set(() => null);
    const links: HTMLAnchorElement[] = [];
    vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(function (
      this: HTMLAnchorElement
    ) {
      links.push(this);
    });
    host.saveTrace('a b', '1/2', 3);
    expect(links.map(({ href, download }) => [href, download])).toEqual([
      ['http://here/user/ann/jaxtrain/api/jobs/a%20b/profiles/1%2F2/trace?rank=3&token=a+b', '']
    ]);
    expect(document.querySelector('a')).toBeNull();
  });
});

describe('a log as a file', () => {
  it('is asked for with the token where pages have to', () => {
    const { settings } = set(() => null);
    expect(logUrl(settings, 'a b', 3)).toBe(
      'http://here/user/ann/jaxtrain/api/jobs/a%20b/log?source=3&token=a+b'
    );
    expect(logUrl({ ...settings, appendToken: false }, 'a', null)).toBe(
      'http://here/user/ann/jaxtrain/api/jobs/a/log'
    );
  });

  it('is saved by a link that leaves nothing in the page', () => {
    const { host } = set(() => null);
    const click = vi.spyOn(HTMLAnchorElement.prototype, 'click').mockReturnValue();
    host.save('a', null);
    expect(click).toHaveBeenCalledTimes(1);
    expect(document.querySelector('a')).toBeNull();
  });
});
