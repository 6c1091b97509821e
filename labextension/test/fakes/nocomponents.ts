/** Instead of JupyterLab's web components: they need more of a browser than tests have. */
const none = () => null;
const provideJupyterDesignSystem = () => ({ register: none });

export {
  none as addJupyterLabThemeChangeListener,
  none as Button,
  none as jpButton,
  none as jpToolbar,
  none as Search,
  none as TreeItem,
  none as TreeView,
  provideJupyterDesignSystem
};
