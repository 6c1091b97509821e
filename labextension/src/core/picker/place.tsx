import { useId, useState } from 'preact/hooks';

import { Entry } from '../base/entry';
import type { ErrorInfo } from '../base/errors';
import { sanitize } from '../base/format';
import { Prose } from '../base/prose';
import type { Row } from '../base/protocol';
import { Standing } from '../base/session';
import { group, stateLabel } from '../base/states';
import type { Translator } from '../base/translator';
import { Dot, Errors, type PickerHost, Wrong } from './common';
import type { PickerStore, PlaceView } from './store';
import type { Finding, Level, Place } from './types';

interface Props {
  store: PickerStore;
  host: PickerHost;
}

function placeLabel(place: Place, trans: Translator): string {
  if (!place.cluster) {
    return sanitize(place.label);
  }
  const name = place.context === null ? sanitize(place.label) : sanitize(place.context);
  const named = trans.__('%1 · %2', sanitize(place.backend), name || trans.__('cluster'));
  return place.current ? trans.__('%1 (current)', named) : named;
}

/** Prefix of the option values for sessions; no place id starts with it. */
const SESSION = 'session ';

/** Where the job runs: this machine, a cluster and a namespace there, or a session. */
export function PlaceChooser({ store, host }: Props) {
  const { trans } = host;
  const id = useId();
  const places = store.places.value ?? [];
  const { place } = store;
  const { context } = store.line.values;
  const clusters = places.some(each => each.cluster);
  const { sessions, session } = store;
  const errors = store.line.errors.filter(({ option }) =>
    ['backend', 'context', 'namespace'].includes(option ?? '')
  );
  return (
    <div class="jaxtrain-place">
      <label for={id}>{trans.__('Run on')}</label>
      <select
        id={id}
        value={session ? SESSION + session.key : (place?.id ?? '')}
        aria-describedby={`${id}-errors`}
        onChange={event => {
          const { value } = event.currentTarget;
          const chosen = places.find(each => each.id === value);
          const target = sessions.find(each => SESSION + each.key === value);
          if (chosen) {
            store.choosePlace(chosen);
          } else if (target) {
            store.chooseSession(target);
          }
        }}
      >
        {!place && (
          <option value="">
            {typeof context === 'string'
              ? trans.__('%1 (no such context)', sanitize(context))
              : trans.__('a cluster (none configured)')}
          </option>
        )}
        {places.map(each => (
          <option key={each.id} value={each.id}>
            {placeLabel(each, trans)}
          </option>
        ))}
        {sessions.length > 0 && (
          <optgroup label={trans.__('Sessions')}>
            {sessions.map(each => (
              <option key={each.key} value={SESSION + each.key}>
                {trans.__('session %1 · %2', sanitize(each.name), sanitize(each.shape))}
              </option>
            ))}
          </optgroup>
        )}
      </select>
      {place?.cluster && !session && <Namespace store={store} host={host} place={place} />}
      <Errors id={`${id}-errors`} errors={errors} />
      {place?.problem && !session && (
        <Wrong error={{ message: place.problem, hint: place.hint }}>
          <RefreshButton store={store} trans={trans} />
        </Wrong>
      )}
      {!clusters && (
        <p class="jaxtrain-quiet">{trans.__('To run on a cluster, add a kubeconfig.')}</p>
      )}
    </div>
  );
}

/** The session in which the cell runs, in place of what there is to choose elsewhere. */
export function SessionNote({ session, host }: { session: Row; host: PickerHost }) {
  const { trans } = host;
  const { name, shape, place, runtime, state } = session;
  return (
    <div class="jaxtrain-card jaxtrain-session-note" data-group={group(state)}>
      <div class="jaxtrain-title">
        <span class="jaxtrain-dot" aria-hidden="true" />
        <b>{sanitize(name)}</b>
        <span class="jaxtrain-state">{stateLabel(state, trans)}</span>
      </div>
      <div class="jaxtrain-facts">
        {[shape, place, runtime ?? ''].filter(Boolean).map(fact => (
          <span key={fact}>{sanitize(fact)}</span>
        ))}
      </div>
      <p class="jaxtrain-quiet">
        <Standing row={session} trans={trans} />
      </p>
      <p>
        {trans.__(
          'The cell runs on the ranks of this session, with its variables. Nodes and devices are those of the session.'
        )}
      </p>
    </div>
  );
}

function Namespace({ store, host, place }: Props & { place: Place }) {
  const { trans } = host;
  const id = useId();
  return (
    <>
      <label for={id}>{trans.__('Namespace')}</label>
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

function RefreshButton({ store, trans }: { store: PickerStore; trans: Translator }) {
  return (
    <button type="button" class="jaxtrain-button" onClick={() => store.refresh()}>
      {trans.__('Check again')}
    </button>
  );
}

function worst(findings: readonly Finding[]): Level {
  const levels: Level[] = ['error', 'warning'];
  return levels.find(level => findings.some(each => each.level === level)) ?? 'ok';
}

/** Return the health of a place in one line: the worst problem, else some of what it offers. */
function summary(findings: readonly Finding[], trans: Translator): string {
  const level = worst(findings);
  const telling = findings.filter(each => each.level === level);
  const [first, second] = telling.map(({ title, detail }) => {
    const short = level === 'ok' ? detail.replace(/ \(.*\)$/, '') : detail; // all of it is below
    return [title, short].filter(Boolean).map(sanitize).join(': ');
  });
  if (!first) {
    return trans.__('No problems found');
  }
  if (level === 'ok') {
    return [trans.__('Ready'), first, second].filter(Boolean).join(' · ');
  }
  return telling.length > 1 ? trans.__('%1, and %2 more', first, telling.length - 1) : first;
}

/** Turn an error into a finding. */
function asFinding({ message, hint }: ErrorInfo): Finding {
  return { level: 'error', title: message, detail: '', hint };
}

/** The health of the place in one line, which expands to all findings with hints. */
export function Health({ store, host, view }: Props & { view: PlaceView }) {
  const { trans } = host;
  const id = useId();
  const [open, setOpen] = useState(false);
  const { value, error, loading } = view.health;
  const findings = error ? [asFinding(error)] : value;
  if (!findings) {
    return (
      <div class="jaxtrain-health">
        <p class="jaxtrain-quiet" role="status">
          {view.cluster ? trans.__('Querying the cluster…') : trans.__('Checking this machine…')}
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
        title={open ? trans.__('Show less') : trans.__('Show all findings')}
        onClick={() => setOpen(!open)}
      >
        <Dot level={worst(findings)} trans={trans} />
        <span>{summary(findings, trans)}</span>
      </button>
      <div id={id} hidden={!open}>
        <ul class="jaxtrain-findings">
          {findings.map(({ level, title, detail, hint }, index) => (
            <li key={index}>
              <Dot level={level} trans={trans} />
              <div>
                <b>{sanitize(title)}</b> {sanitize(detail)}
                {hint && (
                  <p class="jaxtrain-quiet">
                    <Prose text={hint} />
                  </p>
                )}
              </div>
            </li>
          ))}
        </ul>
        <RefreshButton store={store} trans={trans} />
        {loading && <span class="jaxtrain-quiet">{` ${trans.__('Checking…')}`}</span>}
      </div>
    </div>
  );
}
