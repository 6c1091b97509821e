import type { JupyterFrontEnd } from '@jupyterlab/application';
import { TabPanel, type Widget } from '@lumino/widgets';

/** Bring a tab to the front. */
export function toFront(shell: JupyterFrontEnd.IShell, tab: Widget): void {
  shell.activateById(tab.id);
  // Notebook 7 shows its lower area then, and leaves there whatever tab is in front.
  const panel = tab.parent?.parent;
  if (panel instanceof TabPanel) {
    panel.currentWidget = tab;
  }
}

/** Bring a panel of the side bar to the front, with the focus in it. */
export function toFocus(shell: JupyterFrontEnd.IShell, panel: Widget): void {
  shell.activateById(panel.id);
  // The command palette gives the focus back to the document; this comes after that.
  setTimeout(() => panel.activate());
}
