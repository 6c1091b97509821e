import type { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget } from '@jupyterlab/apputils';
import { URLExt } from '@jupyterlab/coreutils';
import type { ServerConnection } from '@jupyterlab/services';
import { h } from 'preact';

import type { Api } from '../core/base/api';
import { sanitize } from '../core/base/format';
import type { Translator } from '../core/base/translator';
import { Xprof } from '../core/job/xprof';
import { trainIcon } from './icons';
import { toFront } from './shell';
import { ViewWidget } from './viewwidget';

/** Tabs with XProf, one for each profile; they don't come back with a page: XProf may be gone. */
export class XprofTabs {
  #shell: JupyterFrontEnd.IShell;
  #area: 'main' | 'down';
  #api: Api;
  #settings: ServerConnection.ISettings;
  #trans: Translator;
  #tabs = new Map<string, MainAreaWidget<ViewWidget>>();

  constructor(
    shell: JupyterFrontEnd.IShell,
    area: 'main' | 'down',
    api: Api,
    settings: ServerConnection.ISettings,
    trans: Translator
  ) {
    this.#shell = shell;
    this.#area = area;
    this.#api = api;
    this.#settings = settings;
    this.#trans = trans;
  }

  open(key: string, profile: string): void {
    const id = `jaxtrain-xprof-${key}-${profile}`;
    let tab = this.#tabs.get(id);
    if (!tab) {
      tab = this.#tab(key, profile);
      tab.id = id;
      this.#tabs.set(id, tab);
      tab.disposed.connect(() => this.#tabs.delete(id));
      tab.content.toggleClass('jaxtrain-below', this.#area === 'down');
      this.#shell.add(tab, this.#area, { type: 'JAX Training' });
    }
    toFront(this.#shell, tab);
  }

  #tab(key: string, profile: string): MainAreaWidget<ViewWidget> {
    const title = this.#trans.__('XProf: %1', sanitize(key));
    const start = () => this.#start(key, profile);
    const content = new ViewWidget(() => h(Xprof, { title, start, trans: this.#trans }));
    const tab = new MainAreaWidget({ content });
    tab.title.label = title;
    tab.title.icon = trainIcon;
    tab.title.caption = this.#trans.__('Profile %1 of training job %2 in XProf', profile, key);
    content.node.setAttribute('aria-label', tab.title.caption);
    return tab;
  }

  async #start(key: string, profile: string): Promise<string> {
    const of = `jobs/${encodeURIComponent(key)}/profiles/${encodeURIComponent(profile)}`;
    const { path } = await this.#api.post<{ path: string }>(`${of}/xprof`, {});
    return URLExt.join(this.#settings.baseUrl, path);
  }
}
