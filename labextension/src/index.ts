import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { connection } from './lab/connection';
import { jobs } from './lab/jobs';

const plugins: JupyterFrontEndPlugin<unknown>[] = [connection, jobs];

export default plugins;
