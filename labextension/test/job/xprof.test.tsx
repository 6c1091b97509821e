import { render } from 'preact';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { ServerError } from '../../src/core/base/errors';
import { english } from '../../src/core/base/translator';
import { Xprof } from '../../src/core/job/xprof';
import { doing, settle } from '../fakes/jobview';

const start = vi.fn<() => Promise<string>>();
let root: HTMLElement;

beforeEach(() => {
  root = document.body.appendChild(document.createElement('div'));
  start.mockReset();
});

afterEach(() => {
  render(null, root);
  root.remove();
});

function show(): void {
  doing(() => render(<Xprof title="XProf: fit" start={start} trans={english} />, root));
}

describe('XProf', () => {
  it('is in a frame that has no rights of this page', async () => {
    start.mockResolvedValue('about:blank');
    show();
    expect(root.textContent).toContain('Starting XProf…');
    await settle();
    const frame = root.querySelector('iframe');
    expect(frame?.getAttribute('src')).toBe('about:blank');
    expect(frame?.title).toBe('XProf: fit');
    expect(frame?.getAttribute('sandbox')?.split(' ').sort()).toEqual([
      'allow-downloads',
      'allow-popups',
      'allow-scripts'
    ]);
    expect(frame?.getAttribute('referrerpolicy')).toBe('no-referrer');
    expect(root.textContent).toContain('Without internet');
  });

  it('says why it can not be shown, and is started again', async () => {
    start.mockRejectedValueOnce(new ServerError('XProf did not start: <b>', 'Wait.'));
    show();
    await settle();
    expect(root.querySelector('[role=status]')?.textContent).toBe('XProf did not start: <b> Wait.');
    start.mockResolvedValueOnce('about:blank');
    doing(() => root.querySelector('button')?.click());
    await settle();
    expect(root.querySelector('[role=status]')).toBeNull();
    expect(root.querySelector('iframe')).not.toBeNull();
  });
});
