import { act } from 'preact/test-utils';
import { describe, expect, it, vi } from 'vitest';

import type { Rank } from '../../src/core/base/protocol';
import {
  all,
  button,
  doing,
  find,
  host,
  press,
  root,
  say,
  settle,
  show,
  texts,
  useJob
} from '../fakes/jobview';
import { ended, NOW, row } from '../fakes/make';

const EVIL = '<img src=x onerror="window.hacked = 1">';

const openLog = vi.fn<(key: string, rank: number) => void>();
const openNotebook = vi.fn<(path: string, cell: string | null) => void>();
const save = vi.fn<(key: string, source: number | string | null) => void>();
const kept = new Map<string, string>();
let answer: () => Promise<unknown>;

useJob(() => ({
  openLog,
  openNotebook,
  save,
  get: <T,>() => answer() as Promise<T>,
  setItem: (name, value) => void kept.set(name, value),
  getItem: name => kept.get(name) ?? null
}));

function rank(number: number, change: Partial<Rank> = {}): Rank {
  return { rank: number, state: 'Running', exit: null, ...change };
}

describe('a job', () => {
  it('says what it is and how it came here', () => {
    expect(root.textContent).toBe('Loading the job…');
    show({ row: ended({ created: NOW - 130 }) }, { state: 'Succeeded' });
    expect(texts('h2')).toEqual(['mnist-4']);
    expect(texts('.jaxtrain-facts span')).toEqual([
      '4 nodes × 2 CPU devices',
      'this machine',
      '2 m 10 s'
    ]);
    expect(texts('.jaxtrain-timeline li')).toEqual(['Queued 3 s', 'Running 2 m 7 s']);
    const spans = all('.jaxtrain-spans > div');
    expect(spans.map(({ style }) => style.clipPath)).toEqual([
      'inset(0 97.69% 0 0.00%)',
      'inset(0 0.00% 0 2.31%)'
    ]);
    expect(spans[1]?.title).toMatch(/^Running · 2 m 7 s · since/);
    // A blank in a text of its own would jump when the length comes to stand behind it.
    const words = all('.jaxtrain-spans > div > span > span');
    expect(words.map(word => [...word.childNodes].map(node => node.textContent))).toEqual([
      ['Queued 3 s'],
      ['Running 2 m 7 s']
    ]);
    expect(texts('.jaxtrain-source pre')).toEqual(['1\n2', '%%jaxtrain mnist-4 -n 4\nprint(1)']);
  });

  it('says how far it is and how long it may take', () => {
    const now = Date.now() / 1000;
    const progress = {
      step: 500,
      total: 2000,
      fraction: 0.25,
      metrics: { loss: 0.0831234 },
      time: now
    };
    show(
      { row: row({ created: now - 100, progress }) },
      { progress, history: [{ state: 'Running', time: now - 100 }] }
    );
    expect(find('.jaxtrain-took').textContent).toMatch(/^1 m 40 s · about 5 m/);
    expect(texts('.jaxtrain-progress p span')).toEqual(['25 %', '500/2000', 'loss 0.08312']);
  });

  it('says all at once how far it is, where its row is a moment behind', () => {
    const progress = { step: 0, total: 40, fraction: 0, metrics: { loss: 1 }, time: 1 };
    show({ row: row() }, { progress });
    expect(texts('.jaxtrain-progress p span')).toEqual(['0 %', '0/40', 'loss 1']);
  });

  it('shows processes of this machine, or pods of a cluster', () => {
    show({}, { ranks: [rank(0, { pid: 42, host: 'ws-1', restarts: 0 })] });
    expect(texts('thead th')).toEqual([
      ...['Rank', 'State', 'Process', 'Host', 'Restarts', 'Exit', 'Memory']
    ]);
    expect(texts('tbody td')).toEqual(['Running', '42', 'ws-1', '0', '', '']);
    const there = { row: row({ backend: 'kubernetes', cluster: true }) };
    show(there, { ranks: [rank(0, { state: 'Waiting' })] });
    expect(texts('thead th').slice(2, 4)).toEqual(['Pod', 'Node']);
    show(there, { ranks: [rank(0, { pod: 'x-0-0', host: 'gpu-03', exit: -9 })] });
    expect(texts('tbody td')).toEqual(['Running', 'x-0-0', 'gpu-03', '', 'SIGKILL', '']);
  });

  it('opens the log of a rank, by click and by key, with one Tab stop', () => {
    const ranks = Array.from({ length: 256 }, (_, number) => rank(number));
    show({}, { ranks });
    expect(find('[data-section=ranks] .jaxtrain-quiet').textContent).toBe('256 Running');
    const rows = all('tbody tr');
    expect(rows.filter(({ tabIndex }) => tabIndex === 0)).toHaveLength(1);
    doing(() => rows[3]?.querySelector('td')?.click());
    expect(openLog).toHaveBeenLastCalledWith('mnist-4', 3);
    rows[3]?.focus();
    press('ArrowDown');
    expect(document.activeElement).toBe(rows[4]);
    press('Enter');
    expect(openLog).toHaveBeenLastCalledWith('mnist-4', 4);
    press('End');
    expect(document.activeElement).toBe(rows[255]);
    show({}, { ranks: ranks.map(each => ({ ...each, state: 'Done' })) });
    expect(document.activeElement).toBe(rows[255]);
    expect(rows[255]?.textContent).toContain('Done');
  });

  it('tells what happened', () => {
    show();
    const event = { time: NOW, kind: 'restart', rank: 2, message: 'was preempted' };
    say({ kind: 'events', from: 0, events: [event, { ...event, rank: null, message: EVIL }] });
    const [first, second] = texts('.jaxtrain-events li');
    expect(first).toMatch(/restartrank 2: was preempted$/);
    expect(second?.endsWith(EVIL)).toBe(true);
    const many = Array.from({ length: 300 }, () => event);
    say({ kind: 'events', from: 2, events: many });
    expect(all('.jaxtrain-events li')).toHaveLength(200);
    doing(() => button('102 earlier events').click());
    expect(all('.jaxtrain-events li')).toHaveLength(302);
  });

  it('offers what the server allows', () => {
    show({ row: ended({ actions: ['delete'], notebook: 'a/b.ipynb', cell: 'c1' }) });
    expect(texts('.jaxtrain-actions button')).toEqual(['Log', 'Notebook', 'Copy name', 'Delete']);
    doing(() => button('Delete').click());
    expect(host.act.mock.lastCall?.[1]).toBe('delete');
    doing(() => button('Notebook').click());
    expect(openNotebook).toHaveBeenCalledWith('a/b.ipynb', 'c1');
    doing(() => button('Copy name').click());
    expect(host.copy).toHaveBeenCalledWith('mnist-4');
  });

  it('lists what was sent and what came back', () => {
    show(
      { sent: [{ name: 'x', kind: 'array', type: 'float32[60000, 784]', size: 188_160_000 }] },
      {
        results: [
          { name: 'params', type: 'dict', size: 1200, format: 'plain' },
          { name: 'model', type: 'Model', size: 1200, format: 'pickle' },
          { name: 'old', type: 'int', size: 12 },
          { name: 'opt', error: EVIL }
        ]
      }
    );
    expect(texts('[data-section=sent] tbody tr > *')).toEqual([
      'x',
      'float32[60000, 784]',
      '188 MB'
    ]);
    expect(texts('[data-section=results] tbody tr')).toEqual([
      'paramsdict1.2 kBplain',
      'modelModel1.2 kBpickle',
      'oldint12 Bpickle',
      `opt${EVIL}`
    ]);
    expect(find('[data-section=results] .jaxtrain-quiet').textContent).toBe('3 of 4 came back');
    expect(root.querySelector('img')).toBeNull();
  });

  it('remembers which parts are closed', () => {
    show();
    const fold = find('[data-section=code] .jaxtrain-fold');
    doing(() => fold.click());
    expect(root.querySelector('.jaxtrain-source')).toBeNull();
    expect(fold.getAttribute('aria-expanded')).toBe('false');
    expect(kept.get('job-section-code')).toBe('closed');
    doing(() => fold.click());
    expect(root.querySelector('.jaxtrain-source')).not.toBeNull();
  });

  it('asks for the YAML when somebody wants it', async () => {
    answer = () => Promise.reject(new Error('It is gone.'));
    show({ row: row({ backend: 'kubernetes', cluster: true }) });
    expect(root.textContent).not.toContain('Asking');
    doing(() => find('[data-section=yaml] .jaxtrain-fold').click());
    expect(root.textContent).toContain('Querying the cluster…');
    await settle();
    expect(root.textContent).toContain('It is gone.');
    doing(() => find('[data-section=yaml] .jaxtrain-fold').click());
    answer = () => Promise.resolve({ yaml: `kind: ${EVIL}` });
    doing(() => find('[data-section=yaml] .jaxtrain-fold').click());
    await settle();
    expect(texts('[data-section=yaml] pre')).toEqual([`kind: ${EVIL}`]);
  });

  async function later(ms: number) {
    await act(async () => {
      await vi.advanceTimersByTimeAsync(ms);
    });
  }

  it('says where the ranks are, and asks again while somebody looks', async () => {
    vi.useFakeTimers();
    try {
      const group = {
        ranks: [1],
        state: 'Running',
        answered: true,
        cell: EVIL,
        line: 12,
        call: 'psum',
        frame: 'model.py:40 in loss',
        seconds: 130,
        process: 'sleeping',
        memory: 1.5e9
      };
      const silent = { ...group, ranks: [3, 4, 5], answered: false, seconds: null };
      const done = { ...silent, ranks: [0], state: 'Finished', process: null, memory: null };
      const asked: string[] = [];
      answer = () => {
        asked.push('');
        return Promise.resolve({ groups: [group, silent, done], notes: [`Can't ask ${EVIL}.`] });
      };
      show({ row: row({ where: false }) });
      expect(root.querySelector('[data-section=where]')).toBeNull();
      show({ row: row({ where: true }) });
      expect(asked).toHaveLength(0);
      const fold = find('[data-section=where] .jaxtrain-fold');
      doing(() => fold.click());
      await later(0);
      const rows = () =>
        all('[data-section=where] tbody tr').map(line =>
          [...line.children].map(({ textContent }) => textContent)
        );
      expect(rows()).toEqual([
        ['1', `${EVIL} line 12 in psum, model.py:40 in loss`, '2 m 10 s', 'sleeping', '1.5 GB'],
        ['3-5', 'Running, no answer', '', 'sleeping', '1.5 GB'],
        ['0', 'Finished', '', '', '']
      ]);
      expect(texts('[data-section=where] p')).toContain(`Can't ask ${EVIL}.`);
      await later(3000);
      expect(asked).toHaveLength(2);
      answer = () => Promise.reject(new Error('It is gone.'));
      await later(3000);
      expect(root.textContent).toContain('It is gone.');
      show({ row: ended({ where: true }) }, { state: 'Succeeded' });
      expect(texts('[data-section=where] p')).toEqual(['No rank is running.']);
      answer = () => Promise.reject(new Error('It is gone.'));
      show({ row: row({ where: true }) });
      await later(0);
      expect(root.textContent).toContain('It is gone.');
      doing(() => fold.click());
      await later(9000);
      expect(asked).toHaveLength(2);
    } finally {
      vi.useRealTimers();
    }
  });

  it('says where its code is from, and how to run it again', () => {
    const again = () => texts('[data-section=code] .jaxtrain-quiet').join(' ');
    show({ row: row({ notebook: 'a/b.ipynb' }) });
    expect(again()).toMatch(/^a\/b\.ipynb To run it again, run this cell again/);
    show({ script: '/home/me/train.py' });
    expect(again()).toMatch(/^\/home\/me\/train\.py To run it again, run this file again/);
    expect(texts('[data-section=code] button')).not.toContain('Open the notebook');
    show({ returns: true });
    expect(again()).toBe('To run it again, call the function again.');
  });

  it('gives what its ranks have printed as files', () => {
    show({}, { ranks: [rank(0), rank(1)] });
    doing(() => button('Save logs').click());
    expect(save).toHaveBeenCalledWith('mnist-4', null);
  });

  it('says that it is gone, when it is', () => {
    show();
    say({ kind: 'error', message: "There is no job 'mnist-4' (any more).", hint: null });
    expect(root.textContent).toContain('There is no job');
    expect(texts('h2')).toEqual([]);
  });
});
