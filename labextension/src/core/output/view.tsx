import { useObservable } from '../base/hooks';
import type { Translator } from '../base/translator';
import { type CardHost, JobCard } from './card';
import type { JobOutput, Origin } from './store';

/** The output of a cell that is a job; nothing as long as only the static card is known. */
export function Output({ output, host }: { output: JobOutput; host: () => CardHost }) {
  useObservable(output);
  const { trans } = host();
  const { shown, printed } = output;
  if (!shown) {
    return null;
  }
  const { summary, origin } = shown;
  return (
    <JobCard
      summary={summary}
      printed={printed}
      saved={origin === 'loading'}
      notice={noticeOf(origin, summary.row.active, trans)}
      host={host()}
    />
  );
}

function noticeOf(origin: Origin, active: boolean, trans: Translator): string {
  if (origin === 'notebook') {
    return trans.__('as saved in the notebook');
  }
  if (origin === 'deleted') {
    return trans.__('this job no longer exists');
  }
  // A job that has ended does not change, so it cannot be out of date.
  return origin === 'disconnected' && active
    ? trans.__('Disconnected: this may be out of date. Reconnecting…')
    : '';
}
