import { render } from 'preact';
import { act } from 'preact/test-utils';
import { afterEach, expect, it, vi } from 'vitest';

import { Entry } from '../../src/core/base/entry';

const root = document.body.appendChild(document.createElement('div'));
const onEnter = vi.fn();

const show = (value: string) =>
  void act(() => render(<Entry value={value} {...{ onEnter }} />, root));
const field = () => root.querySelector('input') as HTMLInputElement;
const notify = (event: string) =>
  void act(() => {
    field().dispatchEvent(new Event(event));
  });

afterEach(() => render(null, root));

it('keeps what somebody types in a field, whatever is drawn anew, until they are done', () => {
  show('team-a');
  field().value = 'team-';
  notify('input');
  show('team-a');
  expect(field().value).toBe('team-');
  field().value = 'team-b';
  notify('input');
  expect(onEnter).not.toHaveBeenCalled();
  notify('change');
  expect(onEnter.mock.calls).toEqual([['team-b']]);
  show('team-b');
  expect(field().value).toBe('team-b');
});

it('shows what is so again when somebody leaves a field as it was', () => {
  show('team-a');
  notify('input');
  notify('blur');
  show('team-c');
  expect(field().value).toBe('team-c');
});

it('takes back with Escape what was typed, so that leaving it changes nothing', () => {
  show('team-a');
  onEnter.mockClear();
  field().value = 'team-';
  notify('input');
  void act(() => {
    field().dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
    // as a browser does when a field is left: only what is another text by now is a change
    if (field().value !== 'team-a') {
      notify('change');
    }
  });
  expect(onEnter).not.toHaveBeenCalled();
  expect(field().value).toBe('team-a');
});
