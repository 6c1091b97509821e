import type { ILabShell, IRouter, JupyterFrontEnd } from '@jupyterlab/application';
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { ILauncher } from '@jupyterlab/launcher';
import { ServerConnection } from '@jupyterlab/services';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { IStatusBar } from '@jupyterlab/statusbar';
import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';
import { vi } from 'vitest';

import { FakeSocket } from './socket';

type Change = () => void;

/** JupyterLab, as far as the plugins ask for it. */
export class FakeLab {
  readonly commands = new CommandRegistry();
  readonly placed: { widget: Widget; area: string }[] = [];
  readonly active: string[] = [];
  readonly items: { command: string }[] = [];
  readonly cards: { command: string }[] = [];
  readonly routes: { command: string; pattern: RegExp }[] = [];
  readonly status: { item: Widget; isActive?: () => boolean }[] = [];
  readonly answers: Record<string, unknown> = {};
  readonly navigate = vi.fn();
  readonly expandLeft = vi.fn();
  settings: Record<string, unknown> = {};
  #changed = new Set<Change>();

  readonly app = {
    commands: this.commands,
    started: Promise.resolve(),
    restored: Promise.resolve(),
    shell: {
      add: (widget: Widget, area: string) => {
        this.placed.push({ widget, area });
        Widget.attach(widget, document.body);
      },
      activateById: (id: string) => this.active.push(id)
    },
    serviceManager: {
      serverSettings: ServerConnection.makeSettings({
        baseUrl: 'http://here/user/ann/',
        wsUrl: 'ws://here/user/ann/',
        token: 'a b',
        appendToken: true,
        WebSocket: FakeSocket as unknown as typeof WebSocket,
        fetch: (request: RequestInfo | URL) => Promise.resolve(this.#answer(request as Request))
      })
    }
  } as unknown as JupyterFrontEnd;

  readonly labShell = { expandLeft: this.expandLeft } as unknown as ILabShell;
  readonly palette = {
    addItem: (item: { command: string }) => this.items.push(item)
  } as unknown as ICommandPalette;
  readonly launcher = {
    add: (card: { command: string }) => this.cards.push(card)
  } as unknown as ILauncher;
  readonly router = {
    register: (route: { command: string; pattern: RegExp }) => this.routes.push(route),
    navigate: this.navigate
  } as unknown as IRouter;
  readonly bar = {
    registerStatusItem: (_: string, item: { item: Widget }) => {
      this.status.push(item);
      Widget.attach(item.item, document.body);
    }
  } as unknown as IStatusBar;
  readonly registry = {
    load: () =>
      Promise.resolve({
        get: () => null,
        composite: this.settings,
        changed: { connect: (change: Change) => this.#changed.add(change) }
      })
  } as unknown as ISettingRegistry;

  /** Change settings, as the user does in the editor. */
  set(values: Record<string, unknown>): void {
    Object.assign(this.settings, values);
    this.#changed.forEach(change => change());
  }

  /** Return the widget that was placed with this id. */
  widget(id: string): Widget {
    const found = this.placed.find(({ widget }) => widget.id === id);
    if (!found) {
      throw new Error(`there is no ${id}`);
    }
    return found.widget;
  }

  dispose(): void {
    this.placed.forEach(({ widget }) => widget.dispose());
    this.status.forEach(({ item }) => item.dispose());
  }

  #answer({ url }: Request): Response {
    const path = new URL(url).pathname.replace('/user/ann/jaxtrain/api/', '');
    const answer = this.answers[path];
    return answer === undefined
      ? new Response('{"message":"Not here."}', { status: 404 })
      : new Response(JSON.stringify(answer));
  }
}

/** Return what was opened of a topic, the last one. */
export function opened(topic: string): number {
  return Number(FakeSocket.last.sent.filter(each => each['topic'] === topic).at(-1)?.['id']);
}
