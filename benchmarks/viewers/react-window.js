/* All lines in the page, and a react-window list of them. Searching goes over the array. */

import { createElement, useSyncExternalStore } from 'react';
import { createRoot } from 'react-dom/client';
import { List, useListRef } from 'react-window';

let lines = [];
let told = () => {};
let list = null;

function Row({ index, style, lines }) {
  return createElement('div', { style, className: 'row' }, lines[index]);
}

function Viewer() {
  const shown = useSyncExternalStore(
    tell => ((told = tell), () => {}),
    () => lines
  );
  list = useListRef(null);
  return createElement(List, {
    listRef: list,
    rowComponent: Row,
    rowCount: shown.length,
    rowHeight: 18,
    rowProps: { lines: shown },
    style: { height: 800, whiteSpace: 'pre', fontFamily: 'monospace' }
  });
}

const end = () => list.current.scrollToRow({ index: lines.length - 1 });

window.viewer = {
  async load(text) {
    lines = text.split('\n');
    lines.pop();
    createRoot(document.body.appendChild(document.createElement('div'))).render(
      createElement(Viewer)
    );
    await bench.until(() => document.querySelector('.row'));
    end();
    await bench.painted();
    return lines.length;
  },
  async append(text) {
    lines = lines.concat(text.split('\n').slice(0, -1));
    told();
    await bench.painted();
    end();
    await bench.painted();
  },
  async search(word) {
    const found = [];
    lines.forEach((line, index) => line.includes(word) && found.push(index));
    list.current.scrollToRow({ index: found[0], align: 'center' });
    await bench.painted();
    return found.length;
  }
};
