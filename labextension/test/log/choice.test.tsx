import { beforeEach, describe, expect, it, vi } from 'vitest';

import {
  button,
  click,
  copy,
  current,
  doing,
  find,
  input,
  list,
  press,
  print,
  reader,
  reply,
  root,
  save,
  server,
  texts,
  useLog
} from '../fakes/logpage';
import { many } from '../fakes/logserver';
import { NOW } from '../fakes/make';
import { FakeSocket } from '../fakes/socket';

useLog();

describe('searching', () => {
  const enter = (text: string) =>
    doing(() => {
      const field = input('input[type=search]');
      field.value = text;
      field.dispatchEvent(new Event('input', { bubbles: true }));
      vi.advanceTimersByTime(300);
    });

  it('marks matches, counts them, and goes from one to the next', async () => {
    await print(many(1000));
    await press('/');
    expect(document.activeElement).toBe(find('input'));
    await enter('LINE 7');
    expect(server.sentOf('search').at(-1)).toMatchObject({ pattern: 'LINE 7', from: 999 });
    await reply('search', {
      kind: 'hits',
      count: 111,
      complete: true,
      near: [7, 70],
      before: null
    });
    expect(server.sentOf('hit').at(-1)).toMatchObject({ from: 1000, back: true });
    await reply('hit', { kind: 'hit', position: 7, index: 7, number: 1, count: 111 });
    expect(find('.jaxtrain-log-count').textContent).toBe('1 of 111');
    expect(find('mark').textContent).toBe('line 7');
    expect(current()).toBe('line 7');
    await press('n');
    expect(server.sentOf('hit').at(-1)).toMatchObject({ from: 7, back: false });
    await reply('hit', { kind: 'hit', position: 70, index: 70, number: 2, count: 111 });
    expect(current()).toBe('line 70');
    expect(find('[data-hit]').textContent).toContain('line 70');
  });

  it('lets the server say where an expression matches: a browser may need for ever', async () => {
    await print(['loss=1', 'a'.repeat(4000)]);
    await press('/');
    await click('Regular expression');
    await enter('.*.*.*.*.*=');
    await reply('search', { kind: 'hits', count: 1, complete: true, near: [0], before: null });
    expect(root.querySelector('mark')).toBeNull();
    const texts = server.sentOf('marks').at(-1)?.['texts'] as string[];
    expect(texts).toContain('loss=1');
    const marks = texts.map(text => (text === 'loss=1' ? [[0, 5]] : []));
    await reply('marks', { kind: 'marks', marks });
    expect(find('mark').textContent).toBe('loss=');
    expect(server.sentOf('marks')).toHaveLength(1); // no line is asked about again
  });

  it('takes the switches, and says when there is nothing or the pattern is wrong', async () => {
    await print(['a']);
    await enter('(');
    await reply('search', { kind: 'hits', count: 0, complete: true, near: [], before: null });
    expect(find('.jaxtrain-log-count').textContent).toBe('no matches');
    await click('Regular expression');
    expect(server.sentOf('search').at(-1)).toMatchObject({ regex: true });
    await reply('search', { kind: 'error', message: 'That is no pattern.', hint: null });
    expect(find('.jaxtrain-log-count').textContent).toBe('That is no pattern.');
    await press('Escape', find('input'));
    expect(server.store.search).toBeNull();
  });
});

describe('tracebacks', () => {
  const LINES = [
    'step',
    'Traceback (most recent call last):',
    '  File "a.py", line 1',
    "KeyError: 'x'",
    'more'
  ];

  beforeEach(async () => {
    server.source = () => 2;
    await print(LINES);
  });

  it('are one row that opens and closes', async () => {
    expect(texts()).toEqual(['step', LINES[1], 'more']);
    const row = find('[data-kind=traceback]');
    expect(row.textContent).toContain("KeyError: 'x'");
    expect(row.textContent).toContain('3 lines');
    await doing(() => row.click());
    expect(texts()).toEqual(LINES);
    await press('ArrowLeft');
    expect(texts()).toHaveLength(3);
  });

  it('are seen when they open, also at the lower edge', async () => {
    await print([...many(60), ...LINES, ...many(60)]);
    const begin = 61;
    const row = reader.folds.rowOf(begin);
    await doing(() => reader.goTo(begin - 1));
    await doing(() => reader.scrolled((row + 1) * 18 - reader.scroll.view));
    expect(reader.scroll.seen[1]).toBe(row + 1);
    await doing(() => reader.toggle(begin));
    expect(reader.scroll.seen[1]).toBe(row + 3);
    expect(texts()).toContain("KeyError: 'x'");
  });

  it('open for the line that one goes to', async () => {
    await press('e');
    await reply('find', { kind: 'found', position: 1, index: 1, complete: true });
    expect(texts()).toEqual(LINES);
    expect(current()).toBe(LINES[1]);
  });
});

describe('lines chosen by the keyboard', () => {
  const shift = (key: string) => press(key, list(), { shiftKey: true });
  const chosen = () =>
    [...root.querySelectorAll('[aria-selected=true] .jaxtrain-log-text')].map(each => {
      return each.textContent;
    });
  const selectionText = () => copy.mock.calls.at(-1)?.[0];

  it('are copied as plain text', async () => {
    await print(['a', '\u001b[31mb\u001b[0m', 'c', 'd']);
    await press('Home');
    await press('j');
    await press('c', list(), { ctrlKey: true });
    expect(selectionText()).toBe('b');
    await shift('ArrowDown');
    await shift('ArrowDown');
    await shift('ArrowDown'); // there is no more, and it does not follow
    expect(chosen()).toEqual(['b', 'c', 'd']);
    expect(reader.following).toBe(false);
    await shift('ArrowUp');
    await press('c', list(), { ctrlKey: true });
    expect(selectionText()).toBe('b\nc');
    await press('k');
    expect(chosen()).toEqual(['b']);
  });

  it('may be too many', async () => {
    await print(many(3000));
    await press('Home');
    await shift('ArrowDown');
    await doing(() => reader.goTo(2999));
    await press('c', list(), { ctrlKey: true });
    expect(find('footer').textContent).toContain('Too many lines');
  });

  it('are all lines of a traceback that is closed', async () => {
    server.source = () => 2;
    await print(['Traceback (most recent call last):', '  File "a.py", line 1', "KeyError: 'x'"]);
    await press('Home');
    await press('ArrowLeft');
    await press('c', list(), { ctrlKey: true });
    expect(selectionText()).toContain("KeyError: 'x'");
  });
});

describe('what is shown', () => {
  it('can be some ranks, as near as can be to the same time', async () => {
    await print(many(100));
    await press('Home');
    await click('Only rank 1');
    expect(server.sentOf('open').at(-1)).toMatchObject({ sources: [1] });
    await print(many(50));
    expect(server.sentOf('find').at(-1)).toMatchObject({
      view: server.viewId,
      what: 'time',
      time: NOW - 90
    });
    expect(button('Only rank 1')?.getAttribute('aria-pressed')).toBe('true');
    await click('Save');
    expect(save).toHaveBeenCalledWith('mnist-4', 1);
  });

  it('keeps the time also when somebody chooses on before the lines are here', async () => {
    await print(many(100));
    await press('Home');
    await press('ArrowDown');
    await click('Only rank 1');
    await click('Only rank 0');
    await print(many(50));
    expect(server.sentOf('find').at(-1)).toMatchObject({ what: 'time', time: NOW - 89 });
  });

  it('has a list of ranks where they are many', async () => {
    server.source = index => index;
    await print(many(20));
    await click('all 20 logs');
    const field = input('.jaxtrain-log-popup input');
    await doing(() => {
      field.value = '0-2, 7';
      field.dispatchEvent(new Event('change', { bubbles: true }));
    });
    expect(server.sentOf('open').at(-1)).toMatchObject({ sources: [0, 1, 2, 7] });
  });

  it('can be lines with some words, and the way back stays', async () => {
    await print(['a']);
    await click('filter');
    const field = input('.jaxtrain-log-field input');
    await doing(() => {
      field.value = 'x';
      field.dispatchEvent(new Event('change', { bubbles: true }));
    });
    expect(server.sentOf('open').at(-1)).toMatchObject({
      include: { pattern: 'x', regex: false, case: false }
    });
    await print([]);
    expect(root.textContent).toContain('No matching lines');
    expect(find('input')).not.toBeNull();
  });

  it.each([
    ['with', 'include', 1],
    ['without', 'exclude', 2]
  ] as const)('can depend on case and on patterns (%s)', async (label, name, nth) => {
    const box = (title: string) => input(`[aria-label="${label}: ${title}"]`);
    const last = () => server.sentOf('open').at(-1)?.[name];
    await print(['a']);
    await click('filter');
    const before = server.sentOf('open').length;
    await doing(() => box('match case').click()); // there is nothing to look for yet
    expect(server.sentOf('open')).toHaveLength(before);
    const field = input(`.jaxtrain-log-field:nth-of-type(${nth}) [type=search]`);
    await doing(() => {
      field.value = 'Loss';
      field.dispatchEvent(new Event('change', { bubbles: true }));
    });
    expect(last()).toEqual({ pattern: 'Loss', regex: false, case: true });
    await doing(() => box('regular expression').click());
    expect(last()).toEqual({ pattern: 'Loss', regex: true, case: true });
    await doing(() => box('match case').click());
    expect(last()).toEqual({ pattern: 'Loss', regex: true, case: false });
    await doing(() => box('regular expression').click());
    expect(last()).toEqual({ pattern: 'Loss', regex: false, case: false });
    expect(reader.store.choice[name === 'include' ? 'exclude' : 'include']).toBeNull();
  });

  it('keeps its filters while they are closed, until a link to a line takes them away', async () => {
    await print(['a']);
    await doing(() => reader.show({ exclude: { pattern: 'A', regex: false, case: true } }));
    await click('filter');
    expect(input('[aria-label="without: match case"]').checked).toBe(true);
    expect(input('[aria-label="without: regular expression"]').checked).toBe(false);
    expect(input('[aria-label="with: match case"]').checked).toBe(false);
    const field = input('.jaxtrain-log-field:nth-of-type(2) [type=search]');
    expect(field.value).toBe('A');
    await doing(() => reader.goToPosition(0));
    expect(field.value).toBe('');
  });

  it('can begin at a position of the whole log', async () => {
    await doing(() => reader.goToPosition(700));
    expect(server.sentOf('open').at(-1)).toMatchObject({ raw: true, sources: null });
    await print(many(1000));
    expect(current()).toBe('line 700');
    expect(root.textContent).not.toContain('new lines');
    expect(reader.following).toBe(false);
  });

  it('says when it may be out of date, and what the server said', async () => {
    await print(['a']);
    await doing(() => FakeSocket.last.drop());
    expect(find('.jaxtrain-stale').textContent).toContain('may be out of date');
    expect(texts()).toEqual(['a']);
  });

  it('says why there is no log', async () => {
    await doing(() =>
      server.say({ id: server.viewId, kind: 'error', message: 'No job <b>x</b>.', hint: null })
    );
    expect(find('[role=alert]').textContent).toContain('No job <b>x</b>.');
  });
});
