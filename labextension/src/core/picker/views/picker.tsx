import { useState } from 'preact/hooks';

import { Trouble } from '../../views/states';
import { useWatched } from '../../views/hooks';
import type { Host } from '../../host';
import type { PickerStore } from '../store';
import { Foot, Form } from './form';
import { Health, PlaceChooser } from './place';
import { Runtimes } from './runtimes';

/** Where a cell runs and on what: it reads and writes the `%%jaxtrain` line of the active cell. */
export function Picker({ store, host }: { store: PickerStore; host: Host }) {
  useWatched(store);
  const [opened, setOpened] = useState(false); // here, since the form goes while a place is looked at
  const { words } = host;
  const { problem, place, namespace, view } = store;
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
    const key = JSON.stringify([place?.id, namespace]);
    const looked = place?.problem ? null : view;
    body = (
      <>
        <PlaceChooser store={store} host={host} />
        {looked && !looked.settled ? (
          <p class="jaxtrain-quiet" role="status">
            {words.__('Looking at this place…')}
          </p>
        ) : (
          <>
            {looked && (
              <>
                <Health key={`${key} health`} store={store} host={host} view={looked} />
                <Runtimes key={key} store={store} host={host} view={looked} />
              </>
            )}
            <Form store={store} host={host} opened={opened} onOpen={setOpened} />
            <Foot store={store} host={host} />
          </>
        )}
      </>
    );
  }
  return (
    <section class="jaxtrain-picker" aria-label={words.__('Runtimes')}>
      <header class="jaxtrain-head">
        <h2>{words.__('Runtimes')}</h2>
      </header>
      {body}
    </section>
  );
}
