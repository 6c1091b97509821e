import { useRef } from 'preact/hooks';

import { Trouble } from '../base/problem';
import { useHeldFocus, useWatched } from '../base/hooks';
import type { Host } from '../base/host';
import type { PickerStore } from './store';
import { Foot, Form } from './form';
import { Health, PlaceChooser } from './place';
import { Runtimes } from './runtimes';

/** Where a cell runs and on what: it reads and writes the `%%jaxtrain` line of the active cell. */
export function Picker({ store, host }: { store: PickerStore; host: Host }) {
  useWatched(store);
  const all = useRef<HTMLElement>(null);
  const begun = useRef(false); // once the form is there it stays: somebody may be in it
  useHeldFocus(all, () => all.current?.querySelector<HTMLElement>('select, button'));
  const { words } = host;
  const { problem, place, view } = store;
  const known = store.places.value && store.options.value;
  let body;
  if (problem && !known) {
    body = <Trouble problem={problem} host={host} retry={() => void store.retry()} />;
  } else if (!known) {
    body = (
      <p class="jaxtrain-quiet" role="status">
        {words.__('Looking for places to run…')}
      </p>
    );
  } else {
    const looked = place?.problem ? null : view;
    begun.current ||= !looked || looked.settled;
    body = (
      <>
        <PlaceChooser store={store} host={host} />
        {!begun.current ? (
          <p class="jaxtrain-quiet" role="status">
            {words.__('Looking at this place…')}
          </p>
        ) : (
          <>
            {looked && (
              <>
                <Health key={`${looked.key} health`} store={store} host={host} view={looked} />
                <Runtimes key={looked.key} store={store} host={host} view={looked} />
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
    <section ref={all} class="jaxtrain-picker" aria-label={words.__('Runtimes')}>
      <header class="jaxtrain-head">
        <h2>{words.__('Runtimes')}</h2>
      </header>
      {body}
    </section>
  );
}
