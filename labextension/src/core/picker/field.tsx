import { useId } from 'preact/hooks';

import { sanitize } from '../base/format';
import type { Row } from '../base/protocol';
import type { Translator } from '../base/translator';
import { Errors, type PickerHost } from './common';
import { labelOf, textOf, valueOf } from './fields';
import type { PickerStore, PlaceView } from './store';
import type { Option, Queue } from './types';

interface FieldProps {
  option: Option;
  store: PickerStore;
  host: PickerHost;
}

/** One option of the form, with its help, and with what is wrong with it. */
export function Field({ option, store, host }: FieldProps) {
  const id = useId();
  const { line } = store;
  const errors = line.errors.filter(each => each.option === option.name);
  if (store.inapplicable.includes(option)) {
    errors.push({
      option: option.name,
      value: line.values[option.name],
      message: host.trans.__('Only applies on Kubernetes.'),
      hint: host.trans.__('Remove it, or choose a cluster above.')
    });
  }
  const label = labelOf(option, host.trans);
  const help = sanitize(option.help);
  const { kind } = option;
  const described = {
    'aria-describedby': `${id}-help ${id}-errors`,
    'aria-invalid': errors.length > 0
  };
  const value = line.values[option.name];
  const fixed = store.isFixed(option);
  const own = { id, disabled: fixed, ...described };
  let input;
  if (kind === 'switch') {
    input = (
      <input
        {...own}
        type="checkbox"
        checked={value === true}
        onChange={event => line.change({ [option.name]: event.currentTarget.checked || null })}
      />
    );
  } else if (kind === 'choice') {
    input = <Choice {...{ option, store, host, label, described, value, fixed }} />;
  } else {
    input = <Text {...{ option, store, host, own, value }} />;
  }
  const grouped = kind === 'choice';
  return (
    <div
      class="jaxtrain-field"
      data-kind={kind}
      data-fixed={fixed}
      title={fixed ? host.trans.__('Determined by the session') : help}
    >
      {grouped ? <span>{label}</span> : <label for={id}>{label}</label>}
      {input}
      <span id={`${id}-help`} class="jaxtrain-unseen">
        {help}
      </span>
      <Errors id={`${id}-errors`} errors={errors} />
    </div>
  );
}

interface TextProps {
  option: Option;
  store: PickerStore;
  host: PickerHost;
  own: { id: string; disabled: boolean; 'aria-describedby': string; 'aria-invalid': boolean };
  value: unknown;
}

function Text({ option, store, host, own, value }: TextProps) {
  const { line } = store;
  const { kind } = option;
  const text = line.typed(option.name) ?? textOf(option, value);
  const enter = (typed: string) => line.change({ [option.name]: valueOf(option, typed) }, typed);
  const shared = {
    ...own,
    value: text,
    placeholder: own.disabled
      ? fixedText(option, store.session)
      : textOf(option, option.default) || (kind === 'number' ? '' : sanitize(option.metavar ?? '')),
    spellcheck: false,
    autocomplete: 'off' as const
  };
  if (kind === 'lines') {
    return (
      <textarea
        {...shared}
        rows={Math.min(6, text.split('\n').length)}
        onInput={event => enter(event.currentTarget.value)}
      />
    );
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    const from = text || textOf(option, option.default) || '0';
    if (kind === 'number' && step !== undefined && /^\d+$/.test(from)) {
      event.preventDefault();
      enter(String(Math.max(0, Number(from) + step)));
    }
  };
  const known = offersOf(option.name, store.view, host.trans);
  const list = `${own.id}-known`;
  return (
    <>
      <input
        {...shared}
        type="text"
        list={known.length > 0 ? list : undefined}
        inputMode={kind === 'number' ? 'numeric' : 'text'}
        onInput={event => enter(event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      {known.length > 0 && (
        <datalist id={list}>
          {known.map(({ value, label }) => (
            <option key={value} value={sanitize(value)} label={label} />
          ))}
        </datalist>
      )}
    </>
  );
}

/** Return what is known of an option that a session has determined. */
function fixedText({ name }: Option, session: Row | null): string {
  return name === 'nodes' && session ? String(session.nodes) : '';
}

interface ChoiceProps extends FieldProps {
  label: string;
  described: { 'aria-describedby': string; 'aria-invalid': boolean };
  value: unknown;
  fixed: boolean;
}

/** A few values next to each other, and "auto" for none of them. */
function Choice({ option, store, host, label, described, value, fixed }: ChoiceProps) {
  const name = useId();
  return (
    <div class="jaxtrain-segments" role="radiogroup" aria-label={label} {...described}>
      {[...option.choices, null].map(choice => (
        <label key={choice ?? ''}>
          <input
            type="radio"
            class="jaxtrain-unseen"
            name={name}
            value={choice ?? ''}
            checked={!fixed && choice === (value ?? null)}
            disabled={fixed}
            onChange={() => store.line.change({ [option.name]: choice })}
          />
          <span>{choice === null ? host.trans.__('auto') : sanitize(choice).toUpperCase()}</span>
        </label>
      ))}
    </div>
  );
}

interface Offer {
  value: string;
  label?: string;
}

/** Return what a place has for an option: values to choose from, with a description. */
function offersOf(option: string, view: PlaceView | null, trans: Translator): Offer[] {
  switch (option) {
    case 'image': {
      const images = (view?.runtimes.value ?? []).flatMap(({ image }) => image ?? []);
      return [...new Set(images)].map(value => ({ value }));
    }
    case 'queue':
      return (view?.queues.value?.queues ?? []).map(queue => ({
        value: queue.name,
        label: aboutQueue(queue, trans)
      }));
    case 'priority':
      return (view?.queues.value?.priorities ?? []).map(({ name, value, description }) => ({
        value: name,
        label: [value === null ? '' : String(value), sanitize(description ?? '')]
          .filter(Boolean)
          .join(' · ')
      }));
    default:
      return [];
  }
}

function aboutQueue({ problem, waiting, free }: Queue, trans: Translator): string {
  if (problem !== null) {
    return sanitize(problem);
  }
  const left = (free ?? []).map(({ resource, free: amount, total }) =>
    trans.__('%1: %2 of %3 free', sanitize(resource), sanitize(amount), sanitize(total))
  );
  const queued = waiting > 0 ? [trans._n('%1 job waiting', '%1 jobs waiting', waiting)] : [];
  return [...queued, ...left].join(' · ');
}
