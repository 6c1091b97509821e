/* The output of a cell in JupyterLab; what is appended comes as from a kernel. */

const output = () => jupyterapp.shell.currentWidget.content.widgets[0].model.outputs;
const stream = text => ({ output_type: 'stream', name: 'stdout', text });
const box = () => document.querySelector('.jp-OutputArea-output');

/** Whether the last letters of a text are shown last; to read all that is shown would take long. */
function ends(text) {
  let node = box();
  while (node?.lastChild) {
    node = node.lastChild;
  }
  return node?.textContent.trimEnd().endsWith(text.slice(-40).trim());
}

window.viewer = {
  async load(text) {
    output().add(stream(text));
    await bench.until(() => ends(text));
    await bench.painted();
    return text.split('\n').length - 1;
  },
  async append(text) {
    output().add(stream(text));
    await bench.until(() => ends(text));
    await bench.painted();
  },
  // What the browser's own search does: JupyterLab's goes over outputs only when one asks for it.
  async search(word) {
    window.getSelection().collapse(box(), 0);
    const found = window.find(word, true);
    await bench.painted();
    return Number(found);
  }
};
