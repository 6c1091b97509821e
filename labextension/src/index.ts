import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { connection } from './lab/connection';
import { jobs } from './lab/jobs';
import { logs } from './lab/logs';
import { runtimes } from './lab/picker';

const plugins: JupyterFrontEndPlugin<unknown>[] = [connection, logs, jobs, runtimes];

export default plugins;
