import { useId, useState } from 'preact/hooks';

import { sanitize } from '../base/format';
import type { Translator } from '../base/translator';
import { Dot, type PickerHost, Wrong } from './common';
import type { PlaceView } from './store';
import type { Runtime } from './types';

interface CardState {
  trans: Translator;
  /** The name of the card that Tab goes to; empty for "Automatic". */
  current: string;
  chosen: string;
  choose: (name: string) => void;
}

/** What makes an element the choice of a card. */
function radio(name: string, { current, chosen, choose }: CardState) {
  return {
    class: 'jaxtrain-choice',
    role: 'radio' as const,
    'data-name': name,
    'aria-checked': name === chosen,
    tabIndex: name === current ? 0 : -1,
    onClick: () => choose(name)
  };
}

interface NamedCardProps extends CardState {
  name: string;
  title: string;
  text: string;
  wrong?: boolean;
}

/** A choice that is no runtime of the place. */
export function NamedCard({ name, title, text, wrong, ...state }: NamedCardProps) {
  return (
    <div class="jaxtrain-card" data-chosen={name === state.chosen}>
      <div {...radio(name, state)}>
        <b>{title}</b>
        <div class="jaxtrain-facts">
          {wrong && <Dot level="error" trans={state.trans} />}
          <span>{text}</span>
        </div>
      </div>
    </div>
  );
}

/** Return how many nodes a runtime takes. */
export function nodeRange({ nodes: [least, most] }: Runtime, trans: Translator): string {
  return least === most
    ? trans._n('%1 node', '%1 nodes', least)
    : trans.__('%1–%2 nodes', least, most);
}

interface CardProps extends CardState {
  runtime: Runtime;
  view: PlaceView;
  host: PickerHost;
}

/** A runtime: what it is for, and all about it on demand. */
export function Card({ runtime, view, host, ...state }: CardProps) {
  const { trans } = host;
  const id = useId();
  const [open, setOpen] = useState(false);
  const { name, device, python, jax, devices, deprecated, problem } = runtime;
  const facts = [
    nodeRange(runtime, trans),
    devices === null ? '' : trans._n('%1 device', '%1 devices', devices),
    jax === null ? '' : trans.__('jax %1', sanitize(jax))
  ];
  return (
    <div class="jaxtrain-card" data-chosen={name === state.chosen}>
      <div {...radio(name, state)} title={sanitize(runtime.description)}>
        <div class="jaxtrain-title">
          <b>{sanitize(name)}</b>
          <span class="jaxtrain-badge">{sanitize(device).toUpperCase()}</span>
          {python !== null && (
            <span class="jaxtrain-badge">{trans.__('py %1', sanitize(python))}</span>
          )}
          {deprecated && <span class="jaxtrain-badge">{trans.__('deprecated')}</span>}
        </div>
        <div class="jaxtrain-facts">
          {facts.filter(Boolean).map(fact => (
            <span key={fact}>{fact}</span>
          ))}
        </div>
        {problem && (
          <div class="jaxtrain-problem">
            <Dot level="warning" trans={trans} />
            <span>{sanitize(problem)}</span>
          </div>
        )}
      </div>
      <button
        type="button"
        class="jaxtrain-link"
        aria-expanded={open}
        aria-controls={id}
        aria-label={trans.__('Details of %1', sanitize(name))}
        onClick={() => setOpen(!open)}
      >
        {open ? trans.__('less') : trans.__('details')}
      </button>
      <div id={id} hidden={!open}>
        {open && <Details runtime={runtime} view={view} host={host} />}
      </div>
    </div>
  );
}

function Details({ runtime, view, host }: Omit<CardProps, keyof CardState>) {
  const { trans } = host;
  const { description, python, jax, image, deprecated } = runtime;
  const facts: [string, string | null][] = [
    [trans.__('Python'), python],
    [trans.__('JAX'), jax],
    [trans.__('Image'), image]
  ];
  return (
    <div class="jaxtrain-details">
      {description && <p>{sanitize(description)}</p>}
      {deprecated && (
        <p>{trans.__('The cluster administrator has deprecated it: use another one.')}</p>
      )}
      <dl>
        {facts.map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value === null ? trans.__('unknown') : sanitize(value)}</dd>
          </div>
        ))}
      </dl>
      {view.cluster && (
        <button type="button" class="jaxtrain-button" onClick={() => view.loadYaml(runtime.name)}>
          {trans.__('YAML')}
        </button>
      )}
      <Yaml name={runtime.name} view={view} host={host} />
    </div>
  );
}

function Yaml({ name, view, host }: { name: string; view: PlaceView; host: PickerHost }) {
  const { trans } = host;
  const asked = view.yaml(name);
  if (!asked) {
    return null;
  }
  const { value, error } = asked;
  if (error) {
    return <Wrong error={error} />;
  }
  if (value === null) {
    return (
      <p class="jaxtrain-quiet" role="status">
        {trans.__('Querying the cluster…')}
      </p>
    );
  }
  return (
    <div class="jaxtrain-code">
      <pre class="jaxtrain-yaml" tabIndex={0} aria-label={trans.__('YAML of %1', sanitize(name))}>
        {sanitize(value)}
      </pre>
      <button type="button" class="jaxtrain-button" onClick={() => host.copy(value)}>
        {trans.__('Copy')}
      </button>
    </div>
  );
}
