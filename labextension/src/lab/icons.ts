import { LabIcon } from '@jupyterlab/ui-components';

/** Four nodes and a hub: the icon of side bar, launcher and tabs. */
export const trainIcon = new LabIcon({
  name: 'jupyter-jax-trainer:train',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" fill="#616161">
    <path d="M12 10.9 17.4 6.2l.9 1-5.4 4.8 5.4 4.8-.9 1L12 13.1l-5.4 4.7-.9-1 5.4-4.8-5.4-4.8.9-1z"/>
    <circle cx="5" cy="6" r="3"/><circle cx="19" cy="6" r="3"/>
    <circle cx="5" cy="18" r="3"/><circle cx="19" cy="18" r="3"/><circle cx="12" cy="12" r="3.4"/>
  </g>
</svg>`
});

/** Three sliders: the icon of the runtime picker. */
export const runtimesIcon = new LabIcon({
  name: 'jupyter-jax-trainer:runtimes',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" fill="#616161">
    <path d="M3 5.2h18v1.6H3zM3 11.2h18v1.6H3zM3 17.2h18v1.6H3z"/>
    <circle cx="8" cy="6" r="2.8"/><circle cx="16" cy="12" r="2.8"/><circle cx="10" cy="18" r="2.8"/>
  </g>
</svg>`
});
