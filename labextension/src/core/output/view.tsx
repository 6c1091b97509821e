import type { From, JobOutput } from './store';
import type { Words } from '../base/translator';
import { GlanceView, type GlanceHost } from './card';
import { useWatched } from '../base/hooks';

/** What the output of a cell shows of its job; nothing where only the static card is known. */
export function Output({ output, host }: { output: JobOutput; host: () => GlanceHost }) {
  useWatched(output);
  const { words } = host();
  const { shown, saved } = output;
  if (!shown) {
    return null;
  }
  const { glance, from } = shown;
  return (
    <GlanceView
      glance={glance}
      printed={saved.printed}
      saved={from === 'first'}
      said={saidOf(from, glance.row.active, words)}
      host={host()}
    />
  );
}

function saidOf(from: From, active: boolean, words: Words): string {
  if (from === 'notebook') {
    return words.__('as the notebook saved it');
  }
  if (from === 'gone') {
    return words.__('this job no longer exists');
  }
  // What has ended does not change, so it cannot be out of date.
  return from === 'before' && active
    ? words.__('No connection: this may be out of date. It tries again by itself.')
    : '';
}
