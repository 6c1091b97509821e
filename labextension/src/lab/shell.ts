import type { JupyterFrontEnd } from '@jupyterlab/application';
import { TabPanel, type Widget } from '@lumino/widgets';

/** Show a tab. */
export function toFront(shell: JupyterFrontEnd.IShell, tab: Widget): void {
  shell.activateById(tab.id);
  // Notebook 7 then shows its lower area, but does not switch tabs there.
  const panel = tab.parent?.parent;
  if (panel instanceof TabPanel) {
    panel.currentWidget = tab;
  }
}

/** Show a panel of the sidebar, and focus it. */
export function toFocus(shell: JupyterFrontEnd.IShell, panel: Widget): void {
  shell.activateById(panel.id);
  // Later, since the command palette returns the focus to the document.
  setTimeout(() => panel.activate());
}
