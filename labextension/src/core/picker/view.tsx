import { useRef } from 'preact/hooks';

import { useFocusFallback, useObservable } from '../base/hooks';
import type { Host } from '../base/host';
import { ProblemNote } from '../base/problem';
import { Foot, Form } from './form';
import { Health, PlaceChooser, SessionNote } from './place';
import { Runtimes } from './runtimes';
import type { PickerStore } from './store';

/** Where a cell runs and on what: it reads and writes the `%%jaxtrain` line of the active cell. */
export function Picker({ store, host }: { store: PickerStore; host: Host }) {
  useObservable(store);
  const all = useRef<HTMLElement>(null);
  const begun = useRef(false); // once shown, the form stays: it may have the focus
  useFocusFallback(all, () => all.current?.querySelector<HTMLElement>('select, button'));
  const { trans } = host;
  const { problem, place, view, session } = store;
  const known = store.places.value && store.options.value;
  let body;
  if (problem && !known) {
    body = <ProblemNote problem={problem} host={host} retry={() => void store.retry()} />;
  } else if (!known) {
    body = (
      <p class="jaxtrain-quiet" role="status">
        {trans.__('Loading places to run…')}
      </p>
    );
  } else {
    const looked = session || place?.problem ? null : view;
    begun.current ||= !looked || looked.settled;
    body = (
      <>
        <PlaceChooser store={store} host={host} />
        {!begun.current ? (
          <p class="jaxtrain-quiet" role="status">
            {trans.__('Checking this machine…')}
          </p>
        ) : (
          <>
            {session && <SessionNote session={session} host={host} />}
            {looked && (
              <>
                <Health key={`${looked.key} health`} store={store} host={host} view={looked} />
                <Runtimes key={place?.id ?? ''} store={store} host={host} view={looked} />
              </>
            )}
            <Form store={store} host={host} />
            <Foot store={store} host={host} />
          </>
        )}
      </>
    );
  }
  return (
    <section ref={all} class="jaxtrain-picker" aria-label={trans.__('Runtimes')}>
      <header class="jaxtrain-head">
        <h2>{trans.__('Runtimes')}</h2>
      </header>
      {body}
    </section>
  );
}
