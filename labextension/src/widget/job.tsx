/** A job as a widget: its summary comes from the kernel, where there is no server extension. */

import { useEffect, useState } from 'preact/hooks';

import { confirmationFor } from '../core/base/actions';
import type { ErrorInfo } from '../core/base/errors';
import type { Action, JobSummary } from '../core/base/protocol';
import { english } from '../core/base/translator';
import { JobCard } from '../core/output/card';
import { readSummary } from '../core/output/store';
import { asRecord, type Model, type RenderProps } from './model';
import { Ask, Wrong } from './notes';
import { copy, draw } from './page';

const trans = english;

function JobWidget({ model }: { model: Model }) {
  const [summary, setSummary] = useState(() => summaryOf(model));
  const [printed, setPrinted] = useState(() => model.get('printed') === true);
  const [asked, setAsked] = useState<Action | null>(null);
  const [error, setError] = useState<ErrorInfo | null>(null);
  useEffect(() => {
    const changed = () => {
      setSummary(summaryOf(model));
      setPrinted(model.get('printed') === true);
    };
    const told = (message: unknown) => {
      const { kind, message: text, hint } = asRecord(message);
      if (kind === 'error') {
        setError({ message: String(text), hint: typeof hint === 'string' ? hint : null });
      }
    };
    model.on('change:summary', changed);
    model.on('change:printed', changed);
    model.on('msg:custom', told);
    changed(); // it may have changed since the first rendering
    return () => {
      model.off('change:summary', changed);
      model.off('change:printed', changed);
      model.off('msg:custom', told);
    };
  }, [model]);

  if (!summary) {
    return (
      <div class="jaxtrain-job-summary jaxtrain-job-summary-loading" role="status">
        {trans.__('Loading the job…')}
      </div>
    );
  }
  const act = (action: Action) => {
    setError(null);
    model.send({ op: 'act', action, uid: summary.row.uid });
  };
  const confirmation =
    asked && summary.row.actions.includes(asked)
      ? confirmationFor(summary.row, asked, trans)
      : null;
  const host = {
    trans,
    copy,
    act: (action: Action) => {
      if (confirmationFor(summary.row, action, trans)) {
        setAsked(action);
      } else {
        act(action);
      }
    }
  };
  return (
    <>
      <JobCard summary={summary} printed={printed} host={host} />
      {confirmation && asked && (
        <Ask
          confirmation={confirmation}
          onAnswer={yes => {
            setAsked(null);
            if (yes) {
              act(asked);
            }
          }}
        />
      )}
      {error && <Wrong error={error} trans={trans} onClose={() => setError(null)} />}
    </>
  );
}

function summaryOf(model: Model): JobSummary | null {
  return readSummary(model.get('summary'));
}

function render({ model, el }: RenderProps): () => void {
  return draw(<JobWidget model={model} />, el, 'jaxtrain-job-widget');
}

export default { render };
