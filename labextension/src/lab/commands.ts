/** The ids of commands. A plugin may be disabled, so others check whether its commands exist. */
export const SHOW_JOBS = 'jaxtrain:show-jobs';
export const OPEN_JOB = 'jaxtrain:open-job';
export const OPEN_LOG = 'jaxtrain:open-log';
export const OPEN_LAST_LOG = 'jaxtrain:open-last-log';
export const SHOW_RUNTIMES = 'jaxtrain:show-runtimes';
export const INSERT_LINE = 'jaxtrain:insert-line';
export const SETTINGS = 'jaxtrain:settings';
export const RECONNECT = 'jaxtrain:reconnect';

/** The translation domain. */
export const DOMAIN = 'jupyter_jax_trainer';
