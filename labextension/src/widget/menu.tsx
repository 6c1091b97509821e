import { useLayoutEffect, useRef } from 'preact/hooks';

import { activeElementNear } from '../core/base/hooks';
import type { MenuItem } from '../core/base/host';

interface MenuProps {
  items: MenuItem[];
  /** The position in the window. */
  x: number;
  y: number;
  onClose: () => void;
}

/** A menu within the widget: arrow keys move, Enter selects, Escape or losing the focus closes. */
export function Menu({ items, x, y, onClose }: MenuProps) {
  const menu = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = menu.current;
    const around = element?.offsetParent;
    if (!element || !around) {
      return;
    }
    const { left, top } = around.getBoundingClientRect();
    const most = around.clientWidth - element.offsetWidth;
    element.style.left = `${Math.max(0, Math.min(x - left, most))}px`;
    element.style.top = `${y - top + around.scrollTop}px`;
  }, [x, y]);
  useLayoutEffect(() => {
    const from = activeElementNear(menu.current);
    menu.current?.querySelector<HTMLElement>('[role=menuitem]')?.focus();
    return () => from?.focus();
  }, []);

  const onKeyDown = (event: KeyboardEvent) => {
    const buttons = [...(menu.current?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])];
    const at = buttons.findIndex(button => button === event.target);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (to !== undefined) {
      buttons.at(to % buttons.length)?.focus();
    } else if (event.key === 'Escape' || event.key === 'Tab') {
      onClose();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    <div
      ref={menu}
      class="jaxtrain-menu"
      role="menu"
      onKeyDown={onKeyDown}
      onFocusOut={event => {
        if (!menu.current?.contains(event.relatedTarget as Node | null)) {
          onClose();
        }
      }}
    >
      {items.map(({ label, run }, index) =>
        run ? (
          <button
            key={index}
            type="button"
            role="menuitem"
            tabIndex={-1}
            onClick={() => {
              onClose();
              run();
            }}
          >
            {label}
          </button>
        ) : (
          <hr key={index} />
        )
      )}
    </div>
  );
}
