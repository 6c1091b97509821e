import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';

import type { Translator } from '../base/translator';
import { handleKey, type KeyActions } from './keys';
import type { Reader } from './reader';
import { LogRow, placed, Rank, Text } from './row';
import { ROW } from './scroll';
import { dayOf, timeOf } from './times';

const BLOCK = 1000; // rows; places are counted from the beginning of a block, so they stay exact
const IDLE = 200; // milliseconds after which the scroll bar is put where it belongs

interface ListProps {
  reader: Reader;
  trans: Translator;
  actions: KeyActions;
  /** Ref to a function that focuses the list. */
  enter: { current: () => void };
}

function indexAt(node: Node | null): number | null {
  const element = node instanceof Element ? node : node?.parentElement;
  const row = element?.closest<HTMLElement>('[data-index]');
  return row ? Number(row.dataset['index']) : null;
}

/** The lines: only visible ones are in the document, in a sticky layer. */
export function LogList({ reader, trans, actions, enter }: ListProps) {
  const list = useRef<HTMLDivElement>(null);
  const layer = useRef<HTMLDivElement>(null);
  const widest = useRef(0);
  const idle = useRef<ReturnType<typeof setTimeout>>(undefined);
  const drawn = useRef(0); // where the scroll bar was put, or found, last
  const id = useId();
  const { scroll, store, folds, times, at } = reader;
  const marker = store.search?.marker ?? null;
  enter.current = () => list.current?.focus();
  const [anchor, setAnchor] = useState<number | null>(null);
  const began = useRef<number | null>(null); // the line at which the mouse was pressed
  useEffect(() => {
    setAnchor(null); // numbers refer to other lines then
    began.current = null;
  }, [store.choice]);
  const chosen: [number, number] = [Math.min(anchor ?? at, at), Math.max(anchor ?? at, at)];

  useLayoutEffect(() => {
    const element = list.current;
    if (!element || typeof ResizeObserver === 'undefined') {
      return;
    }
    // Before scrolling: the browser clamps a place too far down, which would count as a user's scroll.
    reader.resize(element.clientHeight);
    let width = 0;
    const observer = new ResizeObserver(() => {
      if (width !== element.clientWidth) {
        width = element.clientWidth;
        widest.current = 0;
      }
      reader.resize(element.clientHeight);
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [reader]);
  useLayoutEffect(() => {
    const element = list.current;
    if (element && Math.abs(element.scrollTop - scroll.bar) >= 1) {
      element.scrollTop = scroll.bar;
    }
    drawn.current = scroll.bar;
    // The horizontal scroll bar must not come and go with the lines that are seen.
    const rows = layer.current;
    if (element && rows) {
      const wide = rows.offsetWidth > element.clientWidth ? rows.offsetWidth : 0;
      widest.current = Math.max(widest.current, wide);
      rows.style.minWidth = widest.current ? `${widest.current}px` : '';
    }
  });
  useEffect(() => () => clearTimeout(idle.current), []);

  const onScroll = (event: Event) => {
    const element = event.currentTarget as HTMLElement;
    if (Math.abs(scroll.bar - drawn.current) >= 1) {
      reader.settle(); // the event is older than a move that is not drawn yet
      return;
    }
    drawn.current = element.scrollTop;
    reader.scrolled(element.scrollTop);
    if (reader.following) {
      element.scrollTop = scroll.bar; // the user did not scroll
    }
    clearTimeout(idle.current);
    idle.current = setTimeout(() => scroll.scaled && reader.settle(), IDLE);
  };
  const onWheel = (event: WheelEvent) => {
    if (event.deltaY < 0) {
      reader.stopFollowing();
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const other = event.ctrlKey || event.metaKey || event.altKey;
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: scroll.page, PageUp: -scroll.page }[
      event.key
    ];
    if (other) {
      const isCopy = event.key.toLowerCase() === 'c' && !event.altKey && !event.shiftKey;
      if (!isCopy || window.getSelection()?.isCollapsed === false) {
        return; // the browser copies a selection of text
      }
      copyChosen();
    } else if (event.shiftKey && by !== undefined) {
      setAnchor(anchor ?? at);
      reader.extend(by);
    } else if (handleKey(event.key, reader, actions)) {
      setAnchor(null);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  const textOfLines = (first: number, last: number): string | null => {
    const text = reader.textOf(Math.min(first, last), Math.max(first, last));
    if (text === null) {
      reader.announce(trans.__('Too many lines to copy. Save the log as a file instead.'));
    }
    return text;
  };
  const copyChosen = () => {
    const text = textOfLines(...chosen);
    if (text !== null) {
      actions.copy(text);
    }
  };
  const indexOf = (event: Event): number | null => indexAt(event.target as Node);
  const onMouseDown = (event: MouseEvent) => {
    if (!event.shiftKey) {
      began.current = indexOf(event);
    } else if (indexOf(event) !== null) {
      event.preventDefault(); // select lines rather than text
      window.getSelection()?.removeAllRanges();
      list.current?.focus();
    }
  };
  const onClick = (event: MouseEvent) => {
    const index = indexOf(event);
    if (index === null || window.getSelection()?.isCollapsed === false) {
      return; // the click ended a selection of text
    }
    if (folds.at(index) && !event.shiftKey) {
      reader.toggle(index);
      return;
    }
    reader.choose(index);
    if ((event.target as HTMLElement).matches('[data-full]')) {
      reader.openDetail();
    }
  };
  const onCopy = (event: ClipboardEvent) => {
    const selection = window.getSelection();
    if (!selection || selection.rangeCount === 0) {
      return;
    }
    const [from, to] = [began.current, indexAt(selection.focusNode)];
    const isHere = list.current?.querySelector(`[data-index="${from ?? ''}"]`);
    // The start of a selection may be out of view, and so not in the document.
    const text =
      isHere || from === null || to === null
        ? selectionText(selection.getRangeAt(0).cloneContents())
        : textOfLines(from, to);
    if (text !== null) {
      event.clipboardData?.setData('text/plain', text);
      event.preventDefault();
    }
  };

  const atRow = folds.rowOf(at);
  const [first, last] = scroll.seen;
  const block = first - (first % BLOCK);
  const rows = Array.from({ length: Math.max(0, last - first) }, (_, n) => {
    const row = first + n;
    const shown = reader.shown(row);
    if (shown.kind === 'open') {
      return (
        <div
          key={`open ${shown.source}`}
          class="jaxtrain-log-row"
          style={placed((row - block) * ROW)}
          role="option"
          aria-selected={false}
          aria-posinset={row + 1}
          aria-setsize={reader.rows}
          data-kind="open"
        >
          {times !== 'off' && <span class="jaxtrain-log-time">{timeOf(null, times, 0)}</span>}
          <Rank source={shown.source} trans={trans} />
          <span class="jaxtrain-log-text">
            <Text text={shown.text} marker={null} />
          </span>
        </div>
      );
    }
    const { index, line, fold } = shown;
    const around = folds.around(index);
    return (
      <LogRow
        key={index}
        id={`${id}-${index}`}
        index={index}
        row={row}
        rows={reader.rows}
        top={(row - block) * ROW}
        line={line}
        fold={fold}
        open={fold !== undefined && folds.isOpen(fold.start)}
        inside={around !== undefined}
        current={row === atRow}
        chosen={row === atRow || (index >= chosen[0] && index <= chosen[1])}
        hit={line !== undefined && (store.search?.near.has(line.position) ?? false)}
        time={timeOf(line?.time ?? null, times, store.began)}
        day={dayOf(line?.time ?? null)}
        marker={marker}
        trans={trans}
      />
    );
  });
  const currentIsSeen = atRow >= first && atRow < last;
  return (
    <div
      ref={list}
      class="jaxtrain-log-list"
      role="listbox"
      tabIndex={0}
      aria-label={trans.__('Log lines')}
      aria-multiselectable={true}
      aria-activedescendant={currentIsSeen ? `${id}-${folds.lineOf(atRow)}` : undefined}
      onScroll={onScroll}
      onWheel={onWheel}
      onTouchMove={() => reader.stopFollowing()}
      onPointerDown={event => {
        setAnchor(event.shiftKey ? (anchor ?? began.current ?? at) : null);
        reader.stopFollowing();
      }}
      onMouseDown={onMouseDown}
      onKeyDown={onKeyDown}
      onClick={onClick}
      onDblClick={event => {
        const index = indexOf(event);
        if (index !== null && window.getSelection()?.isCollapsed !== false) {
          reader.openDetail();
        }
      }}
      onCopy={onCopy}
    >
      <div role="presentation" style={{ height: `${scroll.height}px` }}>
        <div
          ref={layer}
          class="jaxtrain-log-rows"
          role="presentation"
          style={{ height: `${Math.min(scroll.view, scroll.height)}px` }}
        >
          <div
            role="presentation"
            class="jaxtrain-log-stack"
            style={placed(-(scroll.top - block) * ROW)}
          >
            {rows}
          </div>
        </div>
      </div>
    </div>
  );
}

/** Return selected rows as plain text, without times and ranks; null for a part of one line. */
export function selectionText(part: DocumentFragment): string | null {
  const rows = [...part.querySelectorAll<HTMLElement>('.jaxtrain-log-row')];
  if (rows.length === 0) {
    return null;
  }
  return rows
    .map(row => {
      const texts = [...row.querySelectorAll('.jaxtrain-log-text')];
      return texts.map(text => text.textContent).join('');
    })
    .join('\n');
}
