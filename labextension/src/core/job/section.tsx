import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';

import type { Host } from '../base/host';

interface SectionProps {
  /** The name under which its open state is stored. */
  name: string;
  title: string;
  host: Host;
  /** Said beside the title, also while it is closed. */
  note?: string;
  /** Buttons at the right of the title, while it is open. */
  tools?: ComponentChildren;
  /** Whether it is open before anybody has said so. */
  open?: boolean;
  children?: ComponentChildren;
}

// Open states for hosts without storage, until the page is closed.
const folded = new Map<string, string>();

/**
 * A part of the view that can be closed; closed, it costs nothing.
 *
 * It is a group, not a landmark: two jobs side by side would have landmarks of the same name.
 */
export function Section(props: SectionProps) {
  const { name, title, host, note, tools, children } = props;
  const key = `job-section-${name}`;
  const [open, setOpen] = useState(() => {
    const said = host.getItem?.(key) ?? folded.get(key);
    return said === undefined ? (props.open ?? true) : said === 'open';
  });
  const toggle = () => {
    const value = open ? 'closed' : 'open';
    folded.set(key, value);
    host.setItem?.(key, value);
    setOpen(!open);
  };
  return (
    // A group, not a landmark: two jobs next to each other have the same parts.
    <section class="jaxtrain-section" role="group" data-section={name} aria-label={title}>
      <div class="jaxtrain-section-head">
        <h3>
          <button type="button" class="jaxtrain-fold" aria-expanded={open} onClick={toggle}>
            <span aria-hidden="true">{open ? '▾' : '▸'}</span> {title}
          </button>
        </h3>
        {note && <span class="jaxtrain-quiet">{note}</span>}
        {open && tools && <div class="jaxtrain-tools">{tools}</div>}
      </div>
      {open && children}
    </section>
  );
}
