/* A terminal with room for all lines. Its search stops at the first hit: it cannot count a million. */

import { SearchAddon } from '@xterm/addon-search';
import { Terminal } from '@xterm/xterm';

let terminal;
const search = new SearchAddon();
const written = text => new Promise(done => terminal.write(text, done));

window.viewer = {
  async load(text) {
    const count = text.split('\n').length - 1;
    const box = document.body.appendChild(document.createElement('div'));
    terminal = new Terminal({ cols: 160, rows: 45, scrollback: count + 100_000, convertEol: true });
    terminal.loadAddon(search);
    terminal.open(box);
    // In pieces, since it gives up when more than 50 MB wait to be written.
    for (let at = 0; at < text.length; at += 1_000_000) {
      await written(text.slice(at, at + 1_000_000));
    }
    await bench.painted();
    return count;
  },
  async append(text) {
    await written(text);
    await bench.painted();
  },
  async search(word) {
    const found = search.findPrevious(word);
    await bench.painted();
    return Number(found);
  }
};
