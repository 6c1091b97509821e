import { useId } from 'preact/hooks';

import { plain } from '../base/format';
import { kindOf, labelOf, textOf, valueOf } from './fields';
import { offersOf } from './offers';
import type { PickerStore } from './store';
import type { Option } from './types';
import { Errors, type PickerHost } from './common';

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
  if (store.strays.includes(option)) {
    errors.push({
      option: option.name,
      value: line.values[option.name],
      message: host.words.__('This means something on Kubernetes only.'),
      hint: host.words.__('Leave it out, or choose a cluster above.')
    });
  }
  const label = labelOf(option, host.words);
  const help = plain(option.help);
  const kind = kindOf(option);
  const described = {
    'aria-describedby': `${id}-help ${id}-errors`,
    'aria-invalid': errors.length > 0
  };
  const value = line.values[option.name];
  const own = { id, ...described };
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
    input = <Choice {...{ option, store, host, label, described, value }} />;
  } else {
    input = <Text {...{ option, store, host, own, value }} />;
  }
  const grouped = kind === 'choice';
  return (
    <div class="jaxtrain-field" data-kind={kind} title={help}>
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
  own: { id: string; 'aria-describedby': string; 'aria-invalid': boolean };
  value: unknown;
}

function Text({ option, store, host, own, value }: TextProps) {
  const { line } = store;
  const kind = kindOf(option);
  const text = line.typed(option.name) ?? textOf(option, value);
  const enter = (typed: string) => line.change({ [option.name]: valueOf(option, typed) }, typed);
  const shared = {
    ...own,
    value: text,
    placeholder:
      textOf(option, option.default) || (kind === 'number' ? '' : plain(option.metavar ?? '')),
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
  const known = offersOf(option.name, store.view, host.words);
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
            <option key={value} value={plain(value)} label={label} />
          ))}
        </datalist>
      )}
    </>
  );
}

interface ChoiceProps extends FieldProps {
  label: string;
  described: { 'aria-describedby': string; 'aria-invalid': boolean };
  value: unknown;
}

/** A few values next to each other, and "auto" for none of them. */
function Choice({ option, store, host, label, described, value }: ChoiceProps) {
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
            checked={choice === (value ?? null)}
            onChange={() => store.line.change({ [option.name]: choice })}
          />
          <span>{choice === null ? host.words.__('auto') : plain(choice).toUpperCase()}</span>
        </label>
      ))}
    </div>
  );
}
