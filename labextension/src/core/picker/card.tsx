import { useId, useState } from 'preact/hooks';

import { plain } from '../base/format';
import type { Words } from '../base/translator';
import type { PlaceView } from './store';
import type { Runtime } from './types';
import { Dot, Wrong, type PickerHost } from './common';

interface CardState {
  words: Words;
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
          {wrong && <Dot level="error" words={state.words} />}
          <span>{text}</span>
        </div>
      </div>
    </div>
  );
}

/** Give how many nodes a runtime takes. */
export function nodesOf({ nodes: [least, most] }: Runtime, words: Words): string {
  return least === most
    ? words._n('%1 node', '%1 nodes', least)
    : words.__('%1–%2 nodes', least, most);
}

interface CardProps extends CardState {
  runtime: Runtime;
  view: PlaceView;
  host: PickerHost;
}

/** A runtime: what it is for, and all about it on demand. */
export function Card({ runtime, view, host, ...state }: CardProps) {
  const { words } = host;
  const id = useId();
  const [open, setOpen] = useState(false);
  const { name, device, python, jax, devices, deprecated, problem } = runtime;
  const facts = [
    nodesOf(runtime, words),
    devices === null ? '' : words._n('%1 device', '%1 devices', devices),
    jax === null ? '' : words.__('jax %1', plain(jax))
  ];
  return (
    <div class="jaxtrain-card" data-chosen={name === state.chosen}>
      <div {...radio(name, state)} title={plain(runtime.description)}>
        <div class="jaxtrain-title">
          <b>{plain(name)}</b>
          <span class="jaxtrain-badge">{plain(device).toUpperCase()}</span>
          {python !== null && (
            <span class="jaxtrain-badge">{words.__('py %1', plain(python))}</span>
          )}
          {deprecated && <span class="jaxtrain-badge">{words.__('deprecated')}</span>}
        </div>
        <div class="jaxtrain-facts">
          {facts.filter(Boolean).map(fact => (
            <span key={fact}>{fact}</span>
          ))}
        </div>
        {problem && (
          <div class="jaxtrain-problem">
            <Dot level="warning" words={words} />
            <span>{plain(problem)}</span>
          </div>
        )}
      </div>
      <button
        type="button"
        class="jaxtrain-link"
        aria-expanded={open}
        aria-controls={id}
        aria-label={words.__('Details of %1', plain(name))}
        onClick={() => setOpen(!open)}
      >
        {open ? words.__('less') : words.__('details')}
      </button>
      <div id={id} hidden={!open}>
        {open && <Details runtime={runtime} view={view} host={host} />}
      </div>
    </div>
  );
}

function Details({ runtime, view, host }: Omit<CardProps, keyof CardState>) {
  const { words } = host;
  const { description, python, jax, image, deprecated } = runtime;
  const facts: [string, string | null][] = [
    [words.__('Python'), python],
    [words.__('JAX'), jax],
    [words.__('Image'), image]
  ];
  return (
    <div class="jaxtrain-details">
      {description && <p>{plain(description)}</p>}
      {deprecated && (
        <p>{words.__('Those who run the cluster ask you to use another one instead.')}</p>
      )}
      <dl>
        {facts.map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value === null ? words.__('not known') : plain(value)}</dd>
          </div>
        ))}
      </dl>
      {runtime.backend === 'kubernetes' && (
        <button type="button" class="jaxtrain-button" onClick={() => view.askYaml(runtime.name)}>
          {words.__('YAML')}
        </button>
      )}
      <Yaml name={runtime.name} view={view} host={host} />
    </div>
  );
}

function Yaml({ name, view, host }: { name: string; view: PlaceView; host: PickerHost }) {
  const { words } = host;
  const asked = view.yaml(name);
  if (!asked) {
    return null;
  }
  const { value, trouble } = asked;
  if (trouble) {
    return <Wrong trouble={trouble} />;
  }
  if (value === null) {
    return (
      <p class="jaxtrain-quiet" role="status">
        {words.__('Asking the cluster…')}
      </p>
    );
  }
  return (
    <div class="jaxtrain-code">
      <pre class="jaxtrain-yaml" tabIndex={0} aria-label={words.__('YAML of %1', plain(name))}>
        {plain(value)}
      </pre>
      <button type="button" class="jaxtrain-button" onClick={() => host.copy(value)}>
        {words.__('Copy')}
      </button>
    </div>
  );
}
