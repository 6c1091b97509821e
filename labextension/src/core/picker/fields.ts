/** Which fields the form has, and how values and text become each other. */

import { plain } from '../base/format';
import type { Words } from '../base/translator';
import type { Option, Values } from './types';

const MAIN = ['nodes', 'device', 'devices_per_node', 'out'];
const FIRST = ['name', 'cpu', 'memory', 'timeout', 'queue', 'image', 'env'];
// Chosen by the place and the runtime.
const ELSEWHERE = ['backend', 'context', 'namespace', 'runtime'];

/** How an option is entered. */
export type Kind = 'switch' | 'choice' | 'number' | 'names' | 'lines' | 'text';

export function kindOf(option: Option): Kind {
  if (option.metavar === null) {
    return 'switch';
  }
  if (option.choices.length > 0) {
    return 'choice';
  }
  if (option.repeated) {
    return option.metavar.includes(',') ? 'names' : 'lines';
  }
  return /^[A-Z]$/.test(option.metavar) ? 'number' : 'text';
}

export interface Fields {
  main: Option[];
  more: Option[];
}

/**
 * Give the fields: the usual ones, and all others under "More".
 *
 * What is for clusters alone is there with a cluster, and where it has a value.
 */
export function fieldsOf(options: readonly Option[], cluster: boolean, values: Values): Fields {
  const usable = options.filter(
    ({ name, kubernetes_only: only }) =>
      !ELSEWHERE.includes(name) && (!only || cluster || (values[name] ?? null) !== null)
  );
  const pick = (names: string[]) =>
    names.flatMap(name => usable.find(option => option.name === name) ?? []);
  const rest = usable.filter(({ name }) => ![...MAIN, ...FIRST].includes(name));
  return { main: pick(MAIN), more: [...pick(FIRST), ...rest] };
}

export function labelOf({ name }: Option, words: Words): string {
  const known: Partial<Record<string, string>> = {
    name: words.__('Name'),
    nodes: words.__('Nodes'),
    device: words.__('Device'),
    devices_per_node: words.__('Devices per node'),
    out: words.__('Bring back'),
    use: words.__('Send, too'),
    cpu: words.__('Cores per node'),
    memory: words.__('Memory per node'),
    timeout: words.__('Time limit'),
    queue: words.__('Queue'),
    image: words.__('Image'),
    env: words.__('Environment'),
    allow_large: words.__('Allow large'),
    max_restarts: words.__('Max restarts'),
    detach: words.__('Detach'),
    dry_run: words.__('Dry run'),
    accelerator: words.__('Accelerator'),
    topology: words.__('Topology'),
    package: words.__('Package'),
    env_from_secret: words.__('Env from secret'),
    volume: words.__('Volume'),
    store: words.__('Store'),
    service_account: words.__('Service account'),
    priority: words.__('Priority'),
    dataset: words.__('Dataset'),
    model: words.__('Model')
  };
  const shown = plain(name).replace(/_/g, ' ');
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
    return value.map(String).join(kindOf(option) === 'names' ? ', ' : '\n');
  }
  if (typeof value === 'object') {
    const entries = Object.entries(value as Record<string, unknown>);
    return entries.map(([name, setting]) => `${name}=${String(setting)}`).join('\n');
  }
  if (option.name === 'timeout' && typeof value === 'number') {
    return timeText(value);
  }
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Give what is sent for a typed text: the server says what it means. Null for nothing. */
export function valueOf(option: Option, text: string): string | string[] | null {
  if (kindOf(option) === 'lines') {
    const lines = text.split('\n').filter(line => line.trim());
    return lines.length > 0 ? lines : null;
  }
  // Whoever has typed a comma goes on with the next name.
  const typed = kindOf(option) === 'names' ? text.replace(/[\s,]+$/, '') : text;
  return typed.trim() || null;
}
