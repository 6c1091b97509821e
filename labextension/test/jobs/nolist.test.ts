import { describe, expect, it } from 'vitest';

import { click, find, host, keys, lose, root, show, usePanel } from '../fakes/jobspage';
import { row } from '../fakes/make';
import { FakeSocket } from '../fakes/socket';

usePanel();

describe('where there is no list', () => {
  it('waits without saying that there are no jobs', () => {
    expect(root.textContent).toBe('JobsLoading jobs…');
  });

  it('teaches how to make the first job', () => {
    show();
    expect(root.textContent).toContain('No jobs yet');
    expect(root.textContent).toContain('%%jaxtrain -n 2');
    click('.jaxtrain-code button');
    expect(host.copy).toHaveBeenCalledWith('%load_ext jupyter_jax_trainer');
  });

  it('teaches how to get the server part', async () => {
    await lose({ kind: 'missing', message: 'Not Found', hint: null });
    expect(find('[role=alert]').textContent).toContain(
      'jupyter server extension enable jupyter_jax_trainer'
    );
    const before = FakeSocket.all.length;
    click('[role=alert] > button');
    expect(FakeSocket.all).toHaveLength(before + 1);
  });

  it('says what the server said, as text', async () => {
    await lose({ kind: 'refused', message: 'Not <b>yours</b>.', hint: 'Ask.' });
    expect(find('[role=alert]').textContent).toContain('Not <b>yours</b>.');
    expect(find('[role=alert]').textContent).toContain('Ask.');
  });

  it('keeps the rows when the connection is lost, says so, and goes on when it is back', async () => {
    show(row());
    await lose(null);
    expect(keys()).toEqual(['mnist-4']);
    expect(find('.jaxtrain-stale').textContent).toContain('may be out of date');
    click('.jaxtrain-stale button');
    show(row());
    expect(root.querySelector('.jaxtrain-stale')).toBeNull();
  });
});
