/** What a job asks for in all, in words. */

import { plain } from '../format';
import type { Words } from '../words';
import type { Amounts, Runtime } from './types';

const NAMES: Record<string, string> = { gpu: 'GPU', tpu: 'TPU' };

/**
 * Say what a job asks for in all.
 *
 * What its line leaves open, a cluster takes from the runtime. This machine shares its devices out
 * among the nodes, so nothing is counted there that nobody asked for.
 */
export function totalOf(
  { nodes, device, each, rest }: Amounts,
  runtime: Runtime | undefined,
  elsewhere: boolean,
  words: Words
): string {
  const own = elsewhere ? runtime : undefined;
  const kind = device ?? own?.device ?? '';
  const name = NAMES[kind];
  const usual = own && own.device === kind ? own.devices : null;
  const count = each ?? (elsewhere && name ? (usual ?? 1) : null);
  const devices = count === null ? 0 : nodes * count;
  const named =
    name !== undefined
      ? `${devices} ${name}`
      : kind === 'cpu'
        ? words._n('%1 CPU device', '%1 CPU devices', devices)
        : words._n('%1 device', '%1 devices', devices);
  const parts = [devices > 0 && named, ...rest.map(plain)].filter(Boolean);
  return parts.join(' · ') || words._n('%1 node', '%1 nodes', nodes);
}
