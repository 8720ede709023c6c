// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";

const height = 52; // of a row, as style.css has it
const beyond = 6; // rows that are there above and below what is seen

// Rows is a list of any length: only what is seen of it is in the page.
export function Rows<T>({ label, items, keyOf, current, choose, row }: { label: string; items: T[]; keyOf: (item: T) => string; current?: string | undefined; choose: (item: T) => void; row: (item: T) => ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const look = () => box.current && setView({ top: box.current.scrollTop, height: box.current.clientHeight });
  useEffect(() => {
    look();
    const sizes = new ResizeObserver(look);
    sizes.observe(box.current!);
    return () => sizes.disconnect();
  }, []);
  const at = items.findIndex((item) => keyOf(item) === current);
  useEffect(() => {
    if (at < 0 || !box.current) return;
    const { scrollTop, clientHeight } = box.current;
    if (at * height < scrollTop) box.current.scrollTop = at * height;
    else if ((at + 1) * height > scrollTop + clientHeight) box.current.scrollTop = (at + 1) * height - clientHeight;
  }, [current]);
  const first = Math.max(0, Math.floor(view.top / height) - beyond);
  const last = Math.min(items.length, Math.ceil((view.top + view.height) / height) + beyond);
  const keys = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor(view.height / height) - 1);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: items.length - 1 }[event.key];
    const item = to === undefined ? undefined : items[Math.max(0, Math.min(items.length - 1, to))];
    if (!item) return;
    event.preventDefault();
    choose(item);
  };
  return (
    <div ref={box} class="rows" role="listbox" tabIndex={0} aria-label={label} aria-activedescendant={at >= first && at < last ? `row-${current}` : undefined} onScroll={look} onKeyDown={keys}>
      <div class="space" role="presentation" style={{ height: `${items.length * height}px` }}>
        {items.slice(first, last).map((item, i) => {
          const key = keyOf(item);
          return (
            <div
              key={key}
              id={`row-${key}`}
              class={`row ${key === current ? "current" : ""}`}
              role="option"
              aria-selected={key === current}
              aria-posinset={first + i + 1}
              aria-setsize={items.length}
              style={{ top: `${(first + i) * height}px` }}
              onClick={() => choose(item)}
            >
              {row(item)}
            </div>
          );
        })}
      </div>
    </div>
  );
}
