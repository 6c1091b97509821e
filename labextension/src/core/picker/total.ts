/** What a job asks for in all, in words. */

import { plain } from '../base/format';
import type { Words } from '../base/translator';
import type { Amounts, Runtime } from './types';

const NAMES: Record<string, string> = { gpu: 'GPU', tpu: 'TPU' };

/**
 * Say what a job asks for in all.
 *
 * What its line leaves open, a cluster takes from the runtime; `runtimes` are those that the job may
 * get. This machine has none to ask (null): it shares its devices out among the nodes, so nothing is
 * counted there that nobody asked for.
 */
export function totalOf(
  { nodes, device, each, rest }: Amounts,
  runtimes: Runtime[] | null,
  words: Words
): string {
  const [only, ...others] = runtimes ?? [];
  const kind = device ?? (others.length === 0 ? only?.device : null) ?? '';
  const name = NAMES[kind];
  const usual = new Set(runtimes?.filter(one => one.device === kind).map(one => one.devices ?? 1));
  const [first = 1] = usual.size === 1 ? usual : [];
  const count = each ?? (runtimes && name ? first : null);
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
