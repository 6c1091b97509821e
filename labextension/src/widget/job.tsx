/** A job as a widget: what the kernel says of it, where there is no extension to ask a server. */

import { useEffect, useState } from 'preact/hooks';

import { readGlance } from '../core/output/store';
import type { Action, Glance } from '../core/base/protocol';
import { questionOf } from '../core/base/actions';
import { GlanceView } from '../core/output/card';
import { english } from '../core/base/translator';
import { copy } from './copy';
import { fields, type Given, type Model } from './model';
import { Ask, Wrong, type Trouble } from './notes';
import { draw } from './page';

const words = english;

function JobWidget({ model }: { model: Model }) {
  const [glance, setGlance] = useState(() => glanceOf(model));
  const [asked, setAsked] = useState<Action | null>(null);
  const [trouble, setTrouble] = useState<Trouble | null>(null);
  useEffect(() => {
    const changed = () => setGlance(glanceOf(model));
    const told = (message: unknown) => {
      const { kind, message: text, hint } = fields(message);
      if (kind === 'error') {
        setTrouble({ message: String(text), hint: typeof hint === 'string' ? hint : null });
      }
    };
    model.on('change:glance', changed);
    model.on('msg:custom', told);
    changed(); // it may be another one since it was drawn first
    return () => {
      model.off('change:glance', changed);
      model.off('msg:custom', told);
    };
  }, [model]);

  if (!glance) {
    return (
      <div class="jaxtrain-glance jaxtrain-glance-looking" role="status">
        {words.__('Looking for the job…')}
      </div>
    );
  }
  const act = (action: Action) => {
    setTrouble(null);
    model.send({ op: 'act', action, uid: glance.row.uid });
  };
  const question =
    asked && glance.row.actions.includes(asked) ? questionOf(glance.row, asked, words) : null;
  const host = {
    words,
    copy,
    act: (action: Action) => {
      if (questionOf(glance.row, action, words)) {
        setAsked(action);
      } else {
        act(action);
      }
    }
  };
  return (
    <>
      <GlanceView glance={glance} host={host} />
      {question && asked && (
        <Ask
          question={question}
          onAnswer={yes => {
            setAsked(null);
            if (yes) {
              act(asked);
            }
          }}
        />
      )}
      {trouble && <Wrong trouble={trouble} words={words} onClose={() => setTrouble(null)} />}
    </>
  );
}

function glanceOf(model: Model): Glance | null {
  return readGlance(model.get('glance'));
}

function render({ model, el }: Given): () => void {
  return draw(<JobWidget model={model} />, el, 'jaxtrain-job-widget');
}

export default { render };
