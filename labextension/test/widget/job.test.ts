import { act } from 'preact/test-utils';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import job from '../../src/widget/job';
import { isDark } from '../../src/widget/page';
import { ended } from '../fakes/make';
import { FakeModel } from '../fakes/model';
import { summary } from '../fakes/summary';

let el: HTMLElement;
let model: FakeModel;
let erase: () => void;

const doing = (work: () => void) => void act(work);

beforeEach(() => {
  el = document.body.appendChild(document.createElement('div'));
  model = new FakeModel();
  model.values['summary'] = summary({ actions: ['cancel', 'suspend'] }, { awaited: true });
  doing(() => (erase = job.render({ model, el })));
});

afterEach(() => {
  doing(() => erase());
  el.remove();
  document.body.removeAttribute('style');
});

function press(name: string): void {
  const found = [...el.querySelectorAll('button')].find(each => each.textContent === name);
  if (!found) {
    throw new Error(`there is no button ${name}`);
  }
  doing(() => found.click());
}

describe('the widget of a job', () => {
  it('draws what the kernel says, and each change', () => {
    expect(el.textContent).toContain('Running');
    doing(() => model.set('summary', summary(ended())));
    expect(el.textContent).toContain('Succeeded');
  });

  it('waits for the first word, and takes nothing else for one', () => {
    doing(() => model.set('summary', {}));
    expect(el.textContent).toBe('Loading the job…');
  });

  it('has no way to open what it has no place for', () => {
    expect([...el.querySelectorAll('button')].map(each => each.textContent)).not.toContain('Open');
  });

  it('tells the kernel what to do; before a job is cancelled it asks', () => {
    press('Detach');
    press('Suspend');
    press('Cancel');
    expect(model.sent.map(({ action }) => action)).toEqual(['detach', 'suspend']);
    expect(el.querySelector('[role=alertdialog]')?.textContent).toContain('Cancel mnist-4?');
    expect(document.activeElement?.textContent).toBe('Keep');
    press('Keep');
    expect(el.querySelector('[role=alertdialog]')).toBeNull();
    press('Cancel');
    press('Cancel Job');
    expect(model.sent.at(-1)).toMatchObject({ op: 'act', action: 'cancel' });
  });

  it('asks before it trusts a job that has ended, and says which one that is', () => {
    const of = ended({ actions: ['trust', 'delete'], trust: 'foreign', maker: 'eve@lab' });
    doing(() => model.set('summary', summary(of)));
    press('Trust results');
    expect(model.sent).toEqual([]);
    expect(el.querySelector('[role=alertdialog]')?.textContent).toContain('eve@lab');
    expect(document.activeElement?.textContent).toBe('Withhold');
    press('Withhold');
    expect(model.sent).toEqual([]);
    press('Trust results');
    press('Trust Results');
    expect(model.sent).toEqual([{ op: 'act', action: 'trust', uid: of.uid }]);
  });

  it('takes the focus for its question once, however often the job changes', () => {
    const named = (name: string) =>
      [...el.querySelectorAll('button')].find(({ textContent }) => textContent === name);
    named('Cancel')?.focus();
    press('Cancel');
    named('Cancel Job')?.focus();
    doing(() => model.set('summary', summary()));
    expect(document.activeElement?.textContent).toBe('Cancel Job');
    press('Keep');
    expect(document.activeElement).toBe(named('Cancel'));
    doing(() => model.set('summary', summary(ended())));
    expect(named('Cancel')).toBeUndefined();
    expect(el.contains(document.activeElement)).toBe(true); // not lost with its button
  });

  it('does not ask any more about a job that has ended', () => {
    press('Cancel');
    doing(() => model.set('summary', summary(ended())));
    expect(el.querySelector('[role=alertdialog]')).toBeNull();
  });

  it('says what went wrong, as text, until that is closed', () => {
    doing(() => model.say({ kind: 'error', message: 'It <b>cannot</b>.', hint: 'Wait.' }));
    expect(el.querySelector('[role=alert]')?.textContent).toContain('It <b>cannot</b>. Wait.');
    press('Close');
    expect(el.querySelector('[role=alert]')).toBeNull();
  });

  it('leaves nothing behind', () => {
    doing(() => erase());
    expect(el.childElementCount).toBe(0);
    expect(model.listeners).toBe(0);
  });
});

describe('the colours of a widget', () => {
  it('are those of the page where it has some, else light or dark as the page is', () => {
    const root = el.firstElementChild as HTMLElement;
    expect(root.classList.contains('jaxtrain-alone')).toBe(true);
    expect(root.dataset['dark']).toBe('false');
    document.body.style.backgroundColor = 'rgb(20, 20, 30)';
    expect(isDark(el)).toBe(true);
    const theme = document.head.appendChild(document.createElement('style'));
    theme.textContent = '.jaxtrain { --jp-ui-font-color1: black; }';
    const other = document.body.appendChild(document.createElement('div'));
    let stop = () => {};
    doing(() => (stop = job.render({ model, el: other })));
    expect(other.firstElementChild?.classList.contains('jaxtrain-alone')).toBe(false);
    doing(() => stop());
    other.remove();
    theme.remove();
  });

  it('are those of the page again when its style sheet comes late', async () => {
    const root = el.firstElementChild as HTMLElement;
    expect(root.classList.contains('jaxtrain-alone')).toBe(true);
    const theme = document.head.appendChild(document.createElement('style'));
    theme.textContent = '.jaxtrain { --jp-ui-font-color1: black; }';
    document.head.appendChild(document.createElement('link')).dispatchEvent(new Event('load'));
    await vi.waitFor(() => expect(root.classList.contains('jaxtrain-alone')).toBe(false));
    expect(root.dataset['dark']).toBeUndefined();
    theme.remove();
  });

  it('are found in a shadow tree, and behind what is transparent', () => {
    const outer = document.body.appendChild(document.createElement('div'));
    outer.style.backgroundColor = 'rgb(10, 10, 10)';
    const inner = outer.attachShadow({ mode: 'open' }).appendChild(document.createElement('div'));
    inner.style.backgroundColor = 'rgba(255, 255, 255, 0)';
    expect(isDark(inner)).toBe(true);
    outer.style.backgroundColor = 'rgb(250, 250, 250)';
    expect(isDark(inner)).toBe(false);
    outer.remove();
  });
});
