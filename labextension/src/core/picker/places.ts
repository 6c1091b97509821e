/** Where a line has its job run, and what to change in it for another place or runtime. */

import type { Place, Runtime, Values } from './types';

const LOCAL = 'local';

/** Whether a runtime is one of the server's own machine: their names begin like this. */
function isLocal(runtime: string): boolean {
  return runtime.startsWith('local-');
}

function named(values: Values, name: string): string | null {
  const value = values[name];
  return typeof value === 'string' && value ? value : null;
}

/** Return the place that a line means; null where it names a context that there is not. */
export function placeOf(values: Values, places: readonly Place[]): Place | null {
  const here = places.find(place => place.backend === 'local');
  const current = places.find(place => place.current);
  const clusters = places.filter(place => place.backend === 'kubernetes');
  const context = named(values, 'context');
  if (named(values, 'backend') === LOCAL) {
    return here ?? null;
  }
  if (context !== null) {
    return clusters.find(place => place.context === context) ?? null;
  }
  const runtime = named(values, 'runtime');
  const elsewhere =
    named(values, 'backend') === 'kubernetes' ||
    named(values, 'namespace') !== null ||
    (runtime !== null && !isLocal(runtime));
  return (elsewhere ? (current ?? clusters[0]) : here) ?? null;
}

/** Return the namespace that a line means in a place. */
export function namespaceOf(values: Values, place: Place | null): string | null {
  return place?.backend === 'kubernetes' ? (named(values, 'namespace') ?? place.namespace) : null;
}

/** Leave out the changes that would take away what is not there. */
function needed(changes: Values, values: Values): Values {
  const there = (name: string) => (values[name] ?? null) !== null;
  return Object.fromEntries(
    Object.entries(changes).filter(([name, value]) => value !== null || there(name))
  );
}

/** Return the changes that bring a job to a place; runtimes and namespaces are the place's own. */
export function changesForPlace(place: Place, values: Values): Values {
  const runtime = named(values, 'runtime');
  if (place.backend === 'local') {
    const kept = runtime !== null && isLocal(runtime);
    return needed(
      { backend: null, context: null, namespace: null, ...(kept ? {} : { runtime: null }) },
      values
    );
  }
  return needed(
    {
      backend: 'kubernetes',
      context: place.current ? null : place.context,
      namespace: null,
      runtime: null
    },
    values
  );
}

/**
 * Return the changes that choose a runtime of a place, or none of them.
 *
 * A line with a runtime of a cluster needs no `--backend`; one without needs it to stay there.
 */
export function changesForRuntime(
  name: string | null,
  place: Place | null,
  values: Values
): Values {
  if (place?.backend !== 'kubernetes') {
    return needed({ runtime: name }, values);
  }
  return needed({ runtime: name, backend: name === null ? 'kubernetes' : null }, values);
}

/** Return the runtimes in which all words are found. */
export function matching(runtimes: readonly Runtime[], text: string): readonly Runtime[] {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  return runtimes.filter(runtime => {
    const { name, device, description, python, jax, image } = runtime;
    const all = [name, device, description, `py ${python ?? ''}`, `jax ${jax ?? ''}`, image];
    const searched = all.join('\n').toLowerCase();
    return wanted.every(word => searched.includes(word));
  });
}
