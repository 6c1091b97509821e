import { act } from 'preact/test-utils';
import { describe, expect, it, vi } from 'vitest';

import { selectionText } from '../../src/core/log/list';
import { ROW } from '../../src/core/log/scroll';
import {
  click,
  current,
  doing,
  find,
  list,
  press,
  print,
  reader,
  reply,
  root,
  scrollTo,
  server,
  status,
  texts,
  useLog,
  wheel
} from '../fakes/logpage';
import { many } from '../fakes/logserver';

const EVIL = '<img src=x onerror="window.hacked = 1">';
const VIEW = 600; // the height where nothing is laid out
const SEEN = Math.ceil(VIEW / ROW);

useLog();

describe('the lines', () => {
  it('are said to be coming, or not there', async () => {
    expect(root.textContent).toContain('Loading lines…');
    await print([]);
    expect(root.textContent).toContain('No output yet');
    await print([], { ended: true });
    expect(root.textContent).toContain('No output');
  });

  it('are shown as soon as those that are seen are there', async () => {
    await act(async () => {
      server.texts = many(450);
      server.state();
      await vi.advanceTimersByTimeAsync(1);
      const asked = server.sentOf('lines').map(({ id, start }) => ({ id, start }));
      expect(asked.map(({ start }) => start)).toEqual([400, 200]);
      const lines = Array.from({ length: 50 }, (_, n) => server.line(400 + n));
      server.say({ ...asked[0], kind: 'lines', lines }); // and the other answer does not come
      await vi.advanceTimersByTimeAsync(1);
    });
    expect(texts().at(-1)).toBe('line 449');
  });

  it('have a time and a rank, and stay text', async () => {
    await print([`step 1 ${EVIL}`, '\x1b[32mgreen\x1b[0m']);
    expect(texts()).toEqual([`step 1 ${EVIL}`, 'green']);
    expect(root.querySelector('img')).toBeNull();
    expect(find('.jaxtrain-ansi-green').textContent).toBe('green');
    expect(find('.jaxtrain-log-time').textContent).toMatch(/^\d\d:\d\d:\d\d$/);
    const ranks = [...list().querySelectorAll<HTMLElement>('.jaxtrain-rank')];
    expect(ranks.map(each => [each.textContent, each.dataset['colour']])).toEqual([
      ['0', '0'],
      ['1', '1']
    ]);
  });

  it('are in the document only where they are seen', async () => {
    await print(many(100_000));
    expect(texts()).toHaveLength(SEEN);
    expect(texts().at(-1)).toBe('line 99999');
    expect(status()).toBe('line 100,000 of 100,000 · following');
    await press('Home');
    expect(texts()[0]).toBe('line 0');
    const row = find('[role=option]');
    expect(row.getAttribute('aria-posinset')).toBe('1');
    expect(row.getAttribute('aria-setsize')).toBe('100000');
    expect(list().getAttribute('aria-activedescendant')).toBe(row.id);
  });

  it('show what is not finished yet, and what jaxtrain says', async () => {
    server.source = index => (index === 1 ? null : 0);
    await print(['[jaxtrain: 214 lines are gone]', 'gone', 'a'], { open: { '0': '3%\r7%' } });
    expect(texts()).toEqual(['214 lines are gone', 'gone', 'a', '7%']);
    const kinds = [...root.querySelectorAll<HTMLElement>('[role=option]')];
    expect(kinds.map(each => each.dataset['kind'])).toEqual(['note', 'note', undefined, 'open']);
  });

  it('are told apart by time and rank also where lines are missing', async () => {
    server.source = index => [2, 3, null][index] ?? null;
    const marks = ['[jaxtrain: 9 lines are gone]', '[jaxtrain: attempt 2]', 'its log is gone'];
    await print(marks);
    const rows = [...root.querySelectorAll<HTMLElement>('[data-kind=note]')];
    const told = (selector: string) =>
      rows.map(row => row.querySelector<HTMLElement>(selector)?.textContent);
    expect(told('.jaxtrain-rank')).toEqual(['2', '3', undefined]);
    expect(rows[1]?.querySelector<HTMLElement>('.jaxtrain-rank')?.title).toBe('rank 3');
    await press('t');
    expect(told('.jaxtrain-log-time')).toEqual(['+00:00:10', '+00:00:11', '+00:00:12']);
    await press('t');
    expect(told('.jaxtrain-log-time')).toEqual([undefined, undefined, undefined]);
    const range = document.createRange();
    range.selectNodeContents(list());
    expect(selectionText(range.cloneContents())).toBe(
      '9 lines are gone\nattempt 2\nits log is gone'
    );
  });

  it('are copied without times and ranks', async () => {
    await print(['a', 'b']);
    const range = document.createRange();
    range.selectNodeContents(list());
    expect(selectionText(range.cloneContents())).toBe('a\nb');
  });
});

describe('following', () => {
  it('goes on while lines come, whatever scroll events there are', async () => {
    await print(many(1000));
    await scrollTo(50);
    expect(reader.following).toBe(true);
    expect(list().scrollTop).toBe(reader.scroll.bar);
    await print(many(1100));
    expect(texts().at(-1)).toBe('line 1099');
  });

  it.each([1010, 5000])('shows new lines when they are here (%i)', async length => {
    await print(many(1000));
    server.texts = many(length);
    await act(() => server.state());
    expect(texts().at(-1)).toBe('line 999'); // no room for what is on its way
    await doing(() => {});
    expect(texts().at(-1)).toBe(`line ${length - 1}`);
    expect(texts()).toHaveLength(SEEN);
  });

  it('shows lines now and then, however slow the answers are', async () => {
    await print(many(1000));
    const said = () => server.sentOf('lines').length;
    const before = said();
    for (let length = 2000; length <= 9000; length += 1000) {
      server.texts = many(length);
      await act(() => server.state());
    }
    expect(said() - before).toBeLessThan(4); // those of the first change; none is taken back
    await doing(() => {});
    expect(texts().at(-1)).toBe('line 8999');
  });

  async function drawnInASecond(between: () => void): Promise<number> {
    await print(many(1000));
    let drawn = 0;
    const stop = reader.subscribe(() => drawn++);
    for (let n = 1; n <= 100; n++) {
      server.texts = many(1000 + 200 * n);
      await act(async () => {
        between();
        server.state();
        await server.settle();
        await vi.advanceTimersByTimeAsync(10);
      });
    }
    stop();
    return drawn;
  }

  it('is drawn now and then, however often lines come', async () => {
    const drawn = await drawnInASecond(() => {});
    expect(drawn).toBeGreaterThan(4);
    expect(drawn).toBeLessThan(9);
    await doing(() => {});
    expect(texts().at(-1)).toBe('line 20999');
  });

  const key = (where: Element) => () =>
    where.dispatchEvent(new KeyboardEvent('keydown', { key: 'a', bubbles: true }));

  it('is drawn less often while somebody types beside it', async () => {
    expect(await drawnInASecond(key(document.body))).toBeLessThan(5);
    await doing(() => vi.advanceTimersByTime(1000));
    await doing(() => {});
    expect(texts().at(-1)).toBe('line 20999');
  });

  it('is drawn as ever while somebody types in its own fields', async () => {
    expect(await drawnInASecond(key(find('.jaxtrain-log input')))).toBeGreaterThan(4);
  });

  it('lets go when somebody turns the wheel up, and counts what comes', async () => {
    await print(many(1000));
    await wheel(-10);
    await scrollTo(reader.scroll.bar - 4);
    expect(reader.following).toBe(false);
    await print(many(1012));
    expect(texts().at(-1)).toBe('line 999');
    expect(find('.jaxtrain-log-follow').textContent).toBe('↓ follow · 12 new lines');
    await click('↓ follow');
    expect(reader.following).toBe(true);
    expect(texts().at(-1)).toBe('line 1011');
    expect(root.querySelector('.jaxtrain-log-follow')).toBeNull();
  });

  it('begins again when somebody scrolls to the end', async () => {
    await print(many(1000));
    await doing(() => list().dispatchEvent(new Event('pointerdown', { bubbles: true })));
    await scrollTo(900);
    expect(texts()[0]).toBe('line 50');
    await scrollTo(1000 * ROW - VIEW);
    expect(reader.following).toBe(true);
  });
});

describe('keys', () => {
  it('move', async () => {
    await print(many(1000));
    await press('k');
    expect(current()).toBe('line 998');
    expect(status()).toBe('line 999 of 1,000');
    await press('Home');
    for (const key of ['j', 'ArrowDown', 'PageDown', 'ArrowUp']) {
      await press(key);
    }
    expect(current()).toBe(`line ${1 + Math.floor(VIEW / ROW)}`);
    await press('f');
    expect(current()).toBe('line 999');
  });

  it('go to a line whatever scroll event there still was', async () => {
    await print(many(1000));
    await doing(() => {
      reader.goTo(10);
      list().dispatchEvent(new Event('scroll')); // of before, and not drawn yet
    });
    expect(current()).toBe('line 10');
    await scrollTo(500 * ROW);
    expect(texts()[0]).toBe('line 500');
  });

  it('act on a line that is still to come when it has come', async () => {
    await print(many(100_000));
    await doing(() => {
      for (const key of ['Home', 'Enter']) {
        list().dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
      }
    });
    expect(find('.jaxtrain-log-detail').textContent).toContain('line 0');
  });

  it('forget a line that one has left before it came', async () => {
    await print(many(100_000));
    await doing(() => {
      for (const key of ['Home', 'Enter', 'End']) {
        list().dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
      }
    });
    await press('Home');
    expect(root.querySelector('.jaxtrain-log-detail')).toBeNull();
  });

  it('say of a line that is cut how long it is', async () => {
    server.bytes = 3 << 19;
    await print(['a']);
    await press('Enter');
    const detail = find('.jaxtrain-log-detail').textContent;
    expect(detail).toContain('This is the first MiB of 1.5 MiB');
  });

  it('change the times, open a line in full and close it, and show themselves', async () => {
    await print(['a', 'b']);
    await press('t');
    expect(find('.jaxtrain-log-time').textContent).toBe('+00:00:10');
    await press('t');
    expect(root.querySelector('.jaxtrain-log-time')).toBeNull();
    await press('k');
    await press('Enter');
    expect(server.sentOf('line').at(-1)).toMatchObject({ position: 0 });
    expect(find('.jaxtrain-log-detail pre').textContent).toBe('a');
    expect(find('.jaxtrain-log-detail').textContent).not.toContain('MiB');
    await press('w');
    expect(find('.jaxtrain-log-detail pre').dataset['wrap']).toBeUndefined();
    await press('Escape');
    expect(root.querySelector('.jaxtrain-log-detail')).toBeNull();
    await press('?');
    expect(find('[role=dialog]').textContent).toContain('first error');
    await press('Escape', document.activeElement ?? root);
    expect(root.querySelector('[role=dialog]')).toBeNull();
    expect(document.activeElement).toBe(list());
  });

  it('go to the first error, or say that there is none', async () => {
    await print(many(1000));
    await press('e');
    expect(server.sentOf('find').at(-1)).toMatchObject({ what: 'error' });
    await reply('find', { kind: 'found', position: 500, index: 500, complete: true });
    expect(current()).toBe('line 500');
    await press('e');
    await reply('find', { kind: 'found', position: null, index: null, complete: true });
    expect(root.textContent).toContain('No errors found');
    await press('e');
    await reply('find', { kind: 'found', position: null, index: null, complete: false });
    expect(root.textContent).toContain('No errors found so far');
  });
});
