/** Where the job of a line runs, and how to change the line for another place or runtime. */

import type { Option, Place, Runtime, Values } from './types';

/** Whether a runtime belongs to a place, by the name prefix that some backends use. */
function isOf(runtime: string, place: Place): boolean {
  return place.runtime_prefix !== null && runtime.startsWith(place.runtime_prefix);
}

function named(values: Values, name: string): string | null {
  const value = values[name];
  return typeof value === 'string' && value ? value : null;
}

/** Return the current one of several places, else the first. */
function preferred(places: readonly Place[]): Place | null {
  return places.find(place => place.current) ?? places[0] ?? null;
}

/** Return the place that a line means; null where it names a context that there is not. */
export function placeOf(values: Values, places: readonly Place[]): Place | null {
  const clusters = places.filter(place => place.cluster);
  const context = named(values, 'context');
  const backend = named(values, 'backend');
  const runtime = named(values, 'runtime');
  if (backend !== null && backend !== 'auto') {
    const own = places.filter(place => place.backend === backend);
    const contexts = own.some(place => place.cluster) && context !== null;
    return preferred(contexts ? own.filter(place => place.context === context) : own);
  }
  if (context !== null) {
    return clusters.find(place => place.context === context) ?? null;
  }
  const [here = null] = places;
  const elsewhere =
    named(values, 'namespace') !== null ||
    (runtime !== null && !(here !== null && isOf(runtime, here)));
  return elsewhere ? preferred(clusters) : here;
}

/** Return the namespace that a line means in a place. */
export function namespaceOf(values: Values, place: Place | null): string | null {
  return place?.cluster ? (named(values, 'namespace') ?? place.namespace) : null;
}

/** Leave out the changes that would take away what is not there. */
function needed(changes: Values, values: Values): Values {
  const there = (name: string) => (values[name] ?? null) !== null;
  return Object.fromEntries(
    Object.entries(changes).filter(([name, value]) => value !== null || there(name))
  );
}

/**
 * Return the changes that bring a job to a place; runtimes and namespaces are the place's own.
 *
 * The first place is where jobs run unless a line says otherwise.
 */
export function changesForPlace(
  place: Place,
  values: Values,
  places: readonly Place[] = []
): Values {
  const runtime = named(values, 'runtime');
  const kept = runtime !== null && isOf(runtime, place);
  const implied = !place.cluster && (places[0] ?? place).id === place.id;
  return needed(
    {
      backend: implied ? null : place.backend,
      context: place.current ? null : place.context,
      namespace: null,
      ...(kept ? {} : { runtime: null })
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
  if (!place?.cluster) {
    return needed({ runtime: name }, values);
  }
  return needed({ runtime: name, backend: name === null ? place.backend : null }, values);
}

/** Return the changes that run a cell in a session: what the session has determined is left out. */
export function changesForSession(
  name: string,
  options: readonly Option[],
  values: Values
): Values {
  const others = options.filter(({ of_cell: own }) => !own).map(option => [option.name, null]);
  return needed({ ...(Object.fromEntries(others) as Values), session: name }, values);
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
