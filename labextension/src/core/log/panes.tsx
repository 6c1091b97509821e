import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';

import type { Host } from '../base/host';
import type { Pattern } from '../base/protocol';
import type { Translator } from '../base/translator';
import { textOf } from './ansi';
import { keyHelp } from './keys';
import type { Reader } from './reader';
import { Rank, Text } from './row';
import { dayOf } from './times';

interface BoxProps {
  sign: string;
  title: string;
  /** Its accessible name, with that of its field. */
  name: string;
  on: boolean;
  /** Ref to the checkbox. */
  box: { current: HTMLInputElement | null };
  onChange: () => void;
}

function Box({ sign, title, name, on, box, onChange }: BoxProps) {
  return (
    <label title={title}>
      <input ref={box} type="checkbox" aria-label={name} defaultChecked={on} onChange={onChange} />
      {sign}
    </label>
  );
}

interface FieldProps {
  label: string;
  value: Pattern | null;
  trans: Translator;
  onChange: (value: Pattern | null) => void;
}

function PatternField({ label, value, trans, onChange }: FieldProps) {
  const text = useRef<HTMLInputElement>(null);
  const regex = useRef<HTMLInputElement>(null);
  const cases = useRef<HTMLInputElement>(null);
  const shown = value?.pattern ?? '';
  useLayoutEffect(() => {
    if (text.current) {
      text.current.value = shown; // a link to a line takes filters away
    }
  }, [shown]);
  const change = () => {
    const next: Pattern = {
      pattern: text.current?.value ?? '',
      regex: regex.current?.checked ?? false,
      case: cases.current?.checked ?? false
    };
    const switched = next.regex !== value?.regex || next.case !== value.case;
    if (next.pattern !== shown || (next.pattern && switched)) {
      onChange(next.pattern ? next : null);
    }
  };
  return (
    <span class="jaxtrain-log-field">
      <label>
        {label}
        <input
          ref={text}
          type="search"
          maxLength={1000}
          defaultValue={shown}
          onChange={change}
          onSearch={change} // the cross of the field
        />
      </label>
      <Box
        sign=".*"
        title={trans.__('Regular expression')}
        name={trans.__('%1: regular expression', label)}
        on={value?.regex ?? false}
        box={regex}
        onChange={change}
      />
      <Box
        sign="Aa"
        title={trans.__('Match case')}
        name={trans.__('%1: match case', label)}
        on={value?.case ?? false}
        box={cases}
        onChange={change}
      />
    </span>
  );
}

interface FiltersProps {
  reader: Reader;
  trans: Translator;
  /** Ref to the field for a line or a time. */
  place: { current: HTMLInputElement | null };
  onLeave: () => void;
}

/** Filters by content, and a field for a line or a time to go to. */
export function Filters({ reader, trans, place, onLeave }: FiltersProps) {
  const { include, exclude, raw } = reader.store.choice;
  const go = () => {
    void reader.goToPlace(place.current?.value ?? '');
    onLeave();
  };
  return (
    <div
      class="jaxtrain-log-bar"
      role="group"
      aria-label={trans.__('Filter')}
      onKeyDown={escaped(onLeave)}
    >
      <PatternField
        label={trans.__('with')}
        value={include}
        trans={trans}
        onChange={value => reader.show({ include: value })}
      />
      <PatternField
        label={trans.__('without')}
        value={exclude}
        trans={trans}
        onChange={value => reader.show({ exclude: value })}
      />
      <label>
        <input
          type="checkbox"
          checked={raw}
          onChange={event => reader.show({ raw: event.currentTarget.checked })}
        />
        {trans.__('Show library startup messages')}
      </label>
      <span class="jaxtrain-log-field">
        <label>
          {trans.__('go to')}
          <input
            ref={place}
            type="text"
            size={16}
            placeholder={trans.__('line, 14:30 or +1:30')}
            onKeyDown={event => event.key === 'Enter' && go()}
          />
        </label>
        <button type="button" class="jaxtrain-button" onClick={go}>
          {trans.__('Go')}
        </button>
      </span>
    </div>
  );
}

interface PaneProps {
  reader: Reader;
  host: Host;
  onClose: () => void;
}

/** Copy the address of a page that opens the log at a line. */
export function copyLink({ store }: Reader, host: Host, position: number): void {
  const [source] = store.choice.sources ?? [];
  // Ranks are merged, and their lines have one numbering; another container has its own.
  const container = typeof source === 'string' ? source : null;
  if (host.link) {
    host.copy(host.link(store.key, position, container));
  }
}

/** Handle Escape by closing. */
function escaped(onClose: () => void): (event: KeyboardEvent) => void {
  return event => {
    if (event.key === 'Escape') {
      event.preventDefault();
      event.stopPropagation();
      onClose();
    }
  };
}

const WHOLE = 1 << 20; // bytes of a line that the server sends at most

/** One line in full. */
export function LineDetail({ reader, host, onClose }: PaneProps) {
  const { trans } = host;
  const { detail, wrap, store } = reader;
  const marker = store.search?.marker ?? null;
  if (!detail) {
    return null;
  }
  return (
    <section
      class="jaxtrain-log-detail"
      aria-label={trans.__('Full line')}
      onKeyDown={escaped(onClose)}
    >
      <div class="jaxtrain-log-bar">
        {detail.source !== null && <Rank source={detail.source} trans={trans} />}
        {detail.time !== null && <span>{dayOf(detail.time)}</span>}
        <span>{trans.__('position %1', (detail.position + 1).toLocaleString())}</span>
        <button
          type="button"
          class="jaxtrain-button"
          title={trans.__('Wrap (w)')}
          aria-pressed={wrap}
          onClick={() => reader.set({ wrap: !wrap })}
        >
          {trans.__('wrap')}
        </button>
        <button
          type="button"
          class="jaxtrain-button"
          onClick={() => host.copy(textOf(detail.text))}
        >
          {trans.__('Copy')}
        </button>
        {host.link && (
          <button
            type="button"
            class="jaxtrain-button"
            title={trans.__('Copy a link to this line (l)')}
            onClick={() => copyLink(reader, host, detail.position)}
          >
            {trans.__('Copy link')}
          </button>
        )}
        <button
          type="button"
          class="jaxtrain-button"
          aria-label={trans.__('Close the full line')}
          onClick={onClose}
        >
          ✕
        </button>
      </div>
      <pre data-wrap={wrap || undefined} tabIndex={0}>
        <Text text={detail.text} marker={marker} />
      </pre>
      {detail.bytes > WHOLE && (
        <p class="jaxtrain-quiet">
          {trans.__(
            'This is the first MiB of %1. Save the log to get the whole line.',
            trans.__('%1 MiB', (Math.ceil((10 * detail.bytes) / WHOLE) / 10).toFixed(1))
          )}
        </p>
      )}
    </section>
  );
}

/** The keys. */
export function Help({ host, onClose }: PaneProps) {
  const { trans } = host;
  const close = useRef<HTMLButtonElement>(null);
  useEffect(() => close.current?.focus(), []);
  return (
    <div
      class="jaxtrain-log-help"
      role="dialog"
      aria-label={trans.__('Keys')}
      onKeyDown={escaped(onClose)}
    >
      <dl>
        {keyHelp(trans).map(([keys, does]) => (
          <div key={keys}>
            <dt>
              {keys.split(' ').map(key => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <button ref={close} type="button" class="jaxtrain-button" onClick={onClose}>
        {trans.__('Close')}
      </button>
    </div>
  );
}
