import { Component, type ComponentChild } from 'preact';

import { sanitize } from '../base/format';
import type { Source } from '../base/protocol';
import type { Translator } from '../base/translator';
import { pieces, textOf } from './ansi';
import type { Fold } from './folds';
import { mark, type Marker } from './highlight';
import { type LogLine, NOTE } from './pages';

const COLOURS = 7;
const SHOWN = 4096; // bytes of a line that the server sends in a list

/** The rank or container of a line, with its colour. */
export function Rank({ source, trans }: { source: Source; trans: Translator }) {
  const rank = typeof source === 'number';
  return (
    <span
      class="jaxtrain-rank"
      data-colour={rank ? source % COLOURS : undefined}
      title={rank ? trans.__('rank %1', source) : sanitize(source)}
    >
      {rank ? source : sanitize(source)}
    </span>
  );
}

/** A line's text with its colours, and with matches marked. */
export function Text({ text, marker }: { text: string; marker: Marker | null }) {
  const found = pieces(text);
  const matches = marker?.find(found.map(piece => piece.text).join('')) ?? [];
  return (
    <>
      {mark(found, matches).map(({ text: part, classes, color, background, marked }, index) => {
        const Tag = marked ? 'mark' : 'span';
        return classes || color || background || marked ? (
          <Tag
            key={index}
            {...(classes && { class: classes })}
            {...((color || background) && { style: { color, backgroundColor: background } })}
          >
            {part}
          </Tag>
        ) : (
          part
        );
      })}
    </>
  );
}

/** Position an element by a transform, which causes no layout shift. */
export function placed(top: number): { transform: string } {
  return { transform: `translateY(${top}px)` };
}

interface RowProps {
  id: string;
  index: number;
  row: number;
  rows: number;
  /** Where it is in its block, in pixels. */
  top: number;
  line: LogLine | undefined;
  fold: Fold | undefined;
  /** Whether the traceback of `fold` is shown in full. */
  open: boolean;
  /** Whether it is in a traceback that is open. */
  inside: boolean;
  /** Whether keys act on it. */
  current: boolean;
  /** Whether it would be copied. */
  chosen: boolean;
  hit: boolean;
  time: string;
  day: string;
  marker: Marker | null;
  trans: Translator;
}

/** One line. It renders again only when something of it is another. */
export class LogRow extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps): boolean {
    const keys = Object.keys(next) as (keyof RowProps)[];
    return keys.some(key => next[key] !== this.props[key]);
  }

  override render(): ComponentChild {
    const { id, index, row, rows, top, line, current, chosen, hit, time, day, fold, inside } =
      this.props;
    const said = line && NOTE.exec(line.text);
    const gone = line !== undefined && (line.source === null || said);
    return (
      <div
        id={id}
        class="jaxtrain-log-row"
        style={placed(top)}
        role="option"
        aria-selected={chosen}
        data-current={current || undefined}
        aria-posinset={row + 1}
        aria-setsize={rows}
        data-index={index}
        data-kind={gone ? 'note' : fold || inside ? 'traceback' : undefined}
        data-hit={hit || undefined}
      >
        {!line ? (
          <span class="jaxtrain-log-text">…</span>
        ) : (
          <>
            {time && (
              <span class="jaxtrain-log-time" title={day}>
                {time}
              </span>
            )}
            {line.source !== null && <Rank source={line.source} trans={this.props.trans} />}
            {gone ? (
              <span class="jaxtrain-log-text">{sanitize(said?.[1] ?? textOf(line.text))}</span>
            ) : (
              this.text(line)
            )}
          </>
        )}
      </div>
    );
  }

  private text(line: LogLine): ComponentChild {
    const { fold, open, trans, marker } = this.props;
    if (!fold) {
      return (
        <>
          <span class="jaxtrain-log-text">
            <Text text={line.text} marker={marker} />
          </span>
          {line.bytes > SHOWN && (
            <span
              class="jaxtrain-log-note"
              data-full
              title={trans.__('Show the full line (Enter)')}
            >
              {trans.__('… %1 bytes in total', line.bytes.toLocaleString())}
            </span>
          )}
        </>
      );
    }
    return (
      <>
        <span class="jaxtrain-log-fold" aria-hidden="true">
          {open ? '▾' : '▸'}
        </span>
        <span class="jaxtrain-log-text">
          <Text text={line.text.trim()} marker={marker} />
        </span>
        {!open && <span class="jaxtrain-log-error">{fold.last}</span>}
        <span class="jaxtrain-log-note">{trans._n('%1 line', '%1 lines', fold.lines.length)}</span>
      </>
    );
  }
}
