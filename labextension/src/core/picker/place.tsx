import { useId, useState } from 'preact/hooks';

import { plain } from '../base/format';
import { Entry } from '../base/entry';
import { Said } from '../base/prose';
import type { Words } from '../base/translator';
import type { PickerStore, PlaceView } from './store';
import type { Finding, Level, Place, Trouble } from './types';
import { Dot, Errors, Wrong, type PickerHost } from './common';

interface Props {
  store: PickerStore;
  host: PickerHost;
}

function placeWord(place: Place, words: Words): string {
  if (place.backend === 'local') {
    return words.__('this machine');
  }
  const name = place.context === null ? plain(place.label) : plain(place.context);
  const named = words.__('kubernetes · %1', name || words.__('cluster'));
  return place.current ? words.__('%1 (current)', named) : named;
}

/** Where the job runs: this machine, or a cluster and a namespace there. */
export function PlaceChooser({ store, host }: Props) {
  const { words } = host;
  const id = useId();
  const places = store.places.value ?? [];
  const { place } = store;
  const { context } = store.line.values;
  const clusters = places.some(each => each.backend === 'kubernetes');
  const errors = store.line.errors.filter(({ option }) =>
    ['backend', 'context', 'namespace'].includes(option ?? '')
  );
  return (
    <div class="jaxtrain-place">
      <label for={id}>{words.__('Run on')}</label>
      <select
        id={id}
        value={place?.id ?? ''}
        aria-describedby={`${id}-errors`}
        onChange={event => {
          const chosen = places.find(each => each.id === event.currentTarget.value);
          if (chosen) {
            store.choosePlace(chosen);
          }
        }}
      >
        {!place && (
          <option value="">
            {typeof context === 'string'
              ? words.__('%1 (there is no such context)', plain(context))
              : words.__('a cluster (none is known here)')}
          </option>
        )}
        {places.map(each => (
          <option key={each.id} value={each.id}>
            {placeWord(each, words)}
          </option>
        ))}
      </select>
      {place?.backend === 'kubernetes' && <Namespace store={store} host={host} place={place} />}
      <Errors id={`${id}-errors`} errors={errors} />
      {place?.problem && (
        <Wrong trouble={{ message: place.problem, hint: place.hint }}>
          <LookAgain store={store} words={words} />
        </Wrong>
      )}
      {!clusters && (
        <p class="jaxtrain-quiet">
          {words.__('Clusters are offered here once there is a kubeconfig for them.')}
        </p>
      )}
    </div>
  );
}

function Namespace({ store, host, place }: Props & { place: Place }) {
  const { words } = host;
  const id = useId();
  return (
    <>
      <label for={id}>{words.__('Namespace')}</label>
      <Entry
        id={id}
        spellcheck={false}
        autocomplete="off"
        placeholder={place.namespace ?? ''}
        value={store.line.typed('namespace') ?? store.namespace ?? ''}
        onEnter={text => store.chooseNamespace(text.trim())}
      />
    </>
  );
}

function LookAgain({ store, words }: { store: PickerStore; words: Words }) {
  return (
    <button type="button" class="jaxtrain-button" onClick={() => store.lookAgain()}>
      {words.__('Look again')}
    </button>
  );
}

function worst(findings: readonly Finding[]): Level {
  const levels: Level[] = ['error', 'warning'];
  return levels.find(level => findings.some(each => each.level === level)) ?? 'ok';
}

/** Say in a line how a place is: what is most wrong with it, else some of what it has. */
function summary(findings: readonly Finding[], words: Words): string {
  const level = worst(findings);
  const telling = findings.filter(each => each.level === level);
  const [first, second] = telling.map(({ title, detail }) => {
    const short = level === 'ok' ? detail.replace(/ \(.*\)$/, '') : detail; // all of it is below
    return [title, short].filter(Boolean).map(plain).join(': ');
  });
  if (!first) {
    return words.__('Nothing is known to be wrong');
  }
  if (level === 'ok') {
    return [words.__('Ready'), first, second].filter(Boolean).join(' · ');
  }
  return telling.length > 1 ? words.__('%1, and %2 more', first, telling.length - 1) : first;
}

/** Say as a finding why there are none. */
function asFinding({ message, hint }: Trouble): Finding {
  return { level: 'error', title: message, detail: '', hint };
}

/** How the place is, in a line that opens to all that was found, with what to do. */
export function Health({ store, host, view }: Props & { view: PlaceView }) {
  const { words } = host;
  const id = useId();
  const [open, setOpen] = useState(false);
  const { value, trouble, asking } = view.health;
  const findings = trouble ? [asFinding(trouble)] : value;
  if (!findings) {
    return (
      <div class="jaxtrain-health">
        <p class="jaxtrain-quiet" role="status">
          {view.cluster ? words.__('Asking the cluster…') : words.__('Looking at this place…')}
        </p>
      </div>
    );
  }
  return (
    <div class="jaxtrain-health">
      <button
        type="button"
        class="jaxtrain-summary"
        aria-expanded={open}
        aria-controls={id}
        title={open ? words.__('Show less') : words.__('Show all that was found')}
        onClick={() => setOpen(!open)}
      >
        <Dot level={worst(findings)} words={words} />
        <span>{summary(findings, words)}</span>
      </button>
      <div id={id} hidden={!open}>
        <ul class="jaxtrain-findings">
          {findings.map(({ level, title, detail, hint }, index) => (
            <li key={index}>
              <Dot level={level} words={words} />
              <div>
                <b>{plain(title)}</b> {plain(detail)}
                {hint && (
                  <p class="jaxtrain-quiet">
                    <Said text={hint} />
                  </p>
                )}
              </div>
            </li>
          ))}
        </ul>
        <LookAgain store={store} words={words} />
        {asking && <span class="jaxtrain-quiet">{` ${words.__('Looking…')}`}</span>}
      </div>
    </div>
  );
}
