import { Dialog } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import { render } from 'preact';
import { act } from 'preact/test-utils';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { confirmationFor } from '../../src/core/base/actions';
import { Api, type Fetch } from '../../src/core/base/api';
import type { Row } from '../../src/core/base/protocol';
import { english } from '../../src/core/base/translator';
import { menuOf } from '../../src/core/jobs/list';
import { JobCard } from '../../src/core/output/card';
import { LabHost } from '../../src/lab/host';
import { button, doing, find, host, root, show, texts, useJob } from '../fakes/jobview';
import { ended, fakeHost, row } from '../fakes/make';
import { summary } from '../fakes/summary';

const EVIL = '<img src=x onerror="window.hacked = 1">';
const results = [{ name: 'params', type: 'dict', size: 1200 }];

function foreign(change: Partial<Row> = {}): Row {
  const actions: Row['actions'] = ['trust', 'delete'];
  return ended({ actions, trust: 'foreign', maker: 'eve@lab', ...change });
}

describe('the view of a job that somebody else submitted', () => {
  useJob();

  it('says who claims to have made it, and what is withheld', () => {
    show({ row: foreign({ maker: EVIL }) }, { state: 'Succeeded', results });
    expect(texts('.jaxtrain-facts span')).toContain(`claims to be made by ${EVIL}`);
    expect(find('[data-section=results] .jaxtrain-quiet').textContent).toContain('withheld');
    expect(root.querySelector('img')).toBeNull();
  });

  it('has a button to trust it, with a name, that keeps its place until it is used', () => {
    show({ row: row({ actions: ['trust', 'cancel', 'delete'], trust: 'foreign', maker: 'eve' }) });
    const place = texts('.jaxtrain-actions button').indexOf('Trust results');
    expect(place).toBeGreaterThan(0);
    show({ row: foreign() }, { state: 'Succeeded', results });
    expect(texts('.jaxtrain-actions button').indexOf('Trust results')).toBe(place);
    const trust = button('Trust results');
    expect(trust.type).toBe('button');
    doing(() => trust.click());
    expect(host.act.mock.lastCall?.[0].uid).toBe('uid-mnist-4');
    expect(host.act.mock.lastCall?.[1]).toBe('trust');
  });

  it('keeps the focus when the button goes', () => {
    show({ row: foreign() }, { state: 'Succeeded', results });
    button('Trust results').focus();
    show({ row: foreign({ actions: ['delete'], trust: 'granted' }) }, { state: 'Succeeded' });
    expect(root.contains(document.activeElement)).toBe(true);
    expect(document.activeElement).toBeInstanceOf(HTMLButtonElement);
    expect(texts('.jaxtrain-actions button')).not.toContain('Trust results');
  });

  it("has none where the administrator forbids it, or the job is one's own", () => {
    show({ row: foreign({ actions: ['delete'], trust: 'forbidden' }) }, { results });
    expect(texts('.jaxtrain-actions button')).not.toContain('Trust results');
    expect(find('[data-section=results] .jaxtrain-quiet').textContent).toContain('withheld');
    show({ row: ended() }, { state: 'Succeeded', results });
    expect(root.textContent).not.toMatch(/withheld|claims/);
    show({ row: ended({ trust: 'signed', maker: 'jo@laptop' }) }, { state: 'Succeeded', results });
    expect(texts('.jaxtrain-facts span')).toContain('made by you as jo@laptop');
    expect(root.textContent).not.toMatch(/withheld|claims/);
  });
});

describe('its output in a cell', () => {
  const place = document.createElement('div');
  const does = vi.fn();
  const draw = (of: Row) =>
    void act(() => {
      const shown = summary(of, { results: 'params dict 1.2 kB' });
      render(
        <JobCard summary={shown} host={{ trans: english, act: does, copy: vi.fn() }} />,
        place
      );
    });
  afterEach(() => void act(() => render(null, place)));

  it('has the button, and says that the results are withheld', () => {
    draw(foreign());
    expect(place.querySelector('footer')?.textContent).toContain('withheld: params');
    const [trust] = [...place.querySelectorAll('button')].filter(
      ({ textContent }) => textContent === 'Trust results'
    );
    expect(trust?.title).toContain('may run code');
    void act(() => trust?.click());
    expect(does).toHaveBeenCalledWith('trust');
    draw(ended());
    expect(place.querySelector('footer')?.textContent).toContain('brought back params');
  });
});

describe('the question', () => {
  it('says what it means and who made the job', () => {
    const asked = confirmationFor(foreign(), 'trust', english);
    expect(asked?.body).toMatch(
      /claims to be made by eve@lab.*cannot confirm.*with your permissions/s
    );
    expect(confirmationFor(foreign({ maker: null }), 'trust', english)?.body).not.toContain(
      'claims'
    );
    expect(menuOf(foreign(), fakeHost()).map(({ label }) => label)).toContain('Trust results…');
  });

  it('about deleting it says that its TrainJob stays', () => {
    const active = (trust: Row['trust']) =>
      confirmationFor(row({ trust }), 'delete', english)?.body;
    for (const trust of ['foreign', 'granted', 'forbidden'] as const) {
      expect(active(trust)).toContain('its TrainJob stays');
      expect(active(trust)).not.toContain('cancelled');
    }
    for (const trust of ['own', 'signed'] as const) {
      expect(active(trust)).toMatch(/^It is still active and is cancelled first. Its logs/);
    }
  });

  it('is asked before the server is, for the job that was looked at', async () => {
    const fetch = vi.fn<Fetch>(() => Promise.resolve(new Response('{}')));
    const lab = new LabHost(new Api(fetch), english, vi.fn(), new CommandRegistry());
    const launch = vi.spyOn(Dialog.prototype, 'launch');
    const answer = (label: string) => ({
      button: Dialog.okButton({ label }),
      isChecked: null,
      value: null
    });
    launch.mockResolvedValueOnce({ ...answer('no'), button: Dialog.cancelButton() });
    lab.act(foreign(), 'trust');
    await vi.waitFor(() => expect(launch).toHaveBeenCalledTimes(1));
    await Promise.resolve();
    expect(fetch).not.toHaveBeenCalled();
    launch.mockResolvedValueOnce(answer('yes'));
    lab.act(foreign(), 'trust');
    await vi.waitFor(() => expect(fetch).toHaveBeenCalledTimes(1));
    expect(fetch.mock.lastCall).toEqual([
      'jobs/mnist-4/trust',
      { method: 'POST', body: '{"uid":"uid-mnist-4"}' }
    ]);
    vi.restoreAllMocks();
  });
});
