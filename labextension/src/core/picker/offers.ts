/** What a place has for an option of the form: values to choose from, each with a few words. */

import { plain } from '../base/format';
import type { Words } from '../base/translator';
import type { PlaceView } from './store';
import type { Queue } from './types';

export interface Offer {
  value: string;
  label?: string;
}

export function offersOf(option: string, view: PlaceView | null, words: Words): Offer[] {
  switch (option) {
    case 'image': {
      const images = (view?.runtimes.value ?? []).flatMap(({ image }) => image ?? []);
      return [...new Set(images)].map(value => ({ value }));
    }
    case 'queue':
      return (view?.queues.value?.queues ?? []).map(queue => ({
        value: queue.name,
        label: aboutQueue(queue, words)
      }));
    case 'priority':
      return (view?.queues.value?.priorities ?? []).map(({ name, value, description }) => ({
        value: name,
        label: [value === null ? '' : String(value), plain(description ?? '')]
          .filter(Boolean)
          .join(' · ')
      }));
    default:
      return [];
  }
}

function aboutQueue({ problem, waiting, free }: Queue, words: Words): string {
  if (problem !== null) {
    return plain(problem);
  }
  const left = (free ?? []).map(({ resource, free: amount, total }) =>
    words.__('%1: %2 of %3 free', plain(resource), plain(amount), plain(total))
  );
  const queued = waiting > 0 ? [words._n('%1 job waits', '%1 jobs wait', waiting)] : [];
  return [...queued, ...left].join(' · ');
}
