/** Which fields the form has, and how values and text become each other. */

import { sanitize } from '../base/format';
import type { Translator } from '../base/translator';
import type { Option, Values } from './types';

const MAIN = ['nodes', 'device', 'devices_per_node', 'out'];
const FIRST = ['name', 'cpu', 'memory', 'timeout', 'queue', 'image', 'env'];
// Chosen by the place and the runtime.
const ELSEWHERE = ['backend', 'context', 'namespace', 'runtime'];

export interface Fields {
  main: Option[];
  more: Option[];
}

/**
 * Return the fields: the usual ones, and all others under "More".
 *
 * Options for clusters only are included for a cluster, or if they have a value.
 */
export function fieldsOf(options: readonly Option[], cluster: boolean, values: Values): Fields {
  const usable = options.filter(
    ({ name, cluster_only: only }) =>
      !ELSEWHERE.includes(name) && (!only || cluster || (values[name] ?? null) !== null)
  );
  const pick = (names: string[]) =>
    names.flatMap(name => usable.find(option => option.name === name) ?? []);
  const rest = usable.filter(({ name }) => ![...MAIN, ...FIRST].includes(name));
  return { main: pick(MAIN), more: [...pick(FIRST), ...rest] };
}

export function labelOf({ name }: Option, trans: Translator): string {
  const known: Partial<Record<string, string>> = {
    name: trans.__('Name'),
    nodes: trans.__('Nodes'),
    device: trans.__('Device'),
    devices_per_node: trans.__('Devices per node'),
    out: trans.__('Result variables'),
    use: trans.__('Also send'),
    files: trans.__('Files'),
    cpu: trans.__('Cores per node'),
    memory: trans.__('Memory per node'),
    timeout: trans.__('Time limit'),
    hang_timeout: trans.__('Hang limit'),
    queue: trans.__('Queue'),
    image: trans.__('Image'),
    env: trans.__('Environment'),
    allow_large: trans.__('Allow large data'),
    max_restarts: trans.__('Max restarts'),
    detach: trans.__('Detach'),
    session: trans.__('Session'),
    idle: trans.__('Idle limit'),
    dry_run: trans.__('Dry run'),
    accelerator: trans.__('Accelerator'),
    topology: trans.__('Topology'),
    package: trans.__('Package'),
    env_from_secret: trans.__('Environment from Secret'),
    volume: trans.__('Volume'),
    store: trans.__('Store'),
    service_account: trans.__('Service account'),
    priority: trans.__('Priority'),
    dataset: trans.__('Dataset'),
    model: trans.__('Model')
  };
  const shown = sanitize(name).replace(/_/g, ' ');
  return known[name] ?? shown.charAt(0).toUpperCase() + shown.slice(1);
}

const UNITS: [string, number][] = [
  ['d', 86_400],
  ['h', 3600],
  ['m', 60]
];

/** Write a time as the option takes it: 5400 is `1h30m`. */
function timeText(seconds: number): string {
  let rest = seconds;
  let text = '';
  for (const [unit, length] of UNITS) {
    const whole = Math.floor(rest / length);
    rest -= whole * length;
    text += whole > 0 ? `${whole}${unit}` : '';
  }
  return rest > 0 || !text ? `${text}${rest}s` : text;
}

/** Write a value as one types it. */
export function textOf(option: Option, value: unknown): string {
  if (value === null || value === undefined) {
    return '';
  }
  if (Array.isArray(value)) {
    return value.map(String).join(option.kind === 'names' ? ', ' : '\n');
  }
  if (typeof value === 'object') {
    const entries = Object.entries(value as Record<string, unknown>);
    return entries.map(([name, setting]) => `${name}=${String(setting)}`).join('\n');
  }
  if (option.kind === 'duration' && typeof value === 'number') {
    return timeText(value);
  }
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Return what to send for a typed text, which the server parses; null if it is empty. */
export function valueOf(option: Option, text: string): string | string[] | null {
  if (option.kind === 'lines') {
    const lines = text.split('\n').filter(line => line.trim());
    return lines.length > 0 ? lines : null;
  }
  // After a trailing comma the user is about to type the next name.
  const typed = option.kind === 'names' ? text.replace(/[\s,]+$/, '') : text;
  return typed.trim() || null;
}
