import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { connection } from './lab/connection';
import { jobs } from './lab/jobs';
import { logs } from './lab/logs';
import { mime } from './lab/mime';
import { runtimes } from './lab/runtimes';
import { status } from './lab/status';

const plugins: JupyterFrontEndPlugin<unknown>[] = [connection, logs, jobs, runtimes, status, mime];

export default plugins;
