// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// A terminal that shows what a command writes. It is loaded when the first one is needed.

import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";

// The terminal makes style elements, which the policy of the page refuses. It is given
// elements whose text becomes a sheet that the page adopts, which the policy allows.
const create = document.createElement.bind(document) as (name: string, options?: ElementCreationOptions) => HTMLElement;
document.createElement = ((name: string, options?: ElementCreationOptions) => (name === "style" ? sheetElement() : create(name, options))) as typeof document.createElement;

function sheetElement(): HTMLElement {
  const element = create("template");
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  Object.defineProperty(element, "textContent", { set: (text: string) => sheet.replaceSync(text) });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== sheet);
    HTMLElement.prototype.remove.call(element);
  };
  return element;
}

export interface Screen {
  write(data: Uint8Array, terminal: boolean): void;
  text(): string;
  clear(): void;
  close(): void;
}

// screen opens a terminal in a place. typed is called with what is typed there, if anything may
// be; resized with the size that it has.
export function screen(place: HTMLElement, typed?: (text: string) => void, resized?: (rows: number, columns: number) => void): Screen {
  const terminal = new Terminal({
    convertEol: true,
    disableStdin: !typed,
    scrollback: 10_000,
    fontSize: 13,
    fontFamily: getComputedStyle(place).getPropertyValue("--mono"),
    screenReaderMode: true,
    linkHandler: { activate: () => {}, allowNonHttpProtocols: false }, // nothing that a command writes is a link
    theme: { background: "#14161b", foreground: "#e6e9ee", cursor: typed ? "#9db2ff" : "#14161b" },
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(place);
  if (typed) terminal.onData(typed);
  let told = false; // the size, which counts for programs that have a terminal
  if (resized) terminal.onResize(({ rows, cols }) => told && resized(rows, cols));
  fit.fit();
  const sizes = new ResizeObserver(() => fit.fit());
  sizes.observe(place);
  return {
    write(data, raw) {
      if (terminal.options.convertEol === raw) terminal.options.convertEol = !raw;
      if (raw && !told) {
        told = true;
        resized?.(terminal.rows, terminal.cols);
      }
      terminal.write(data);
    },
    text() {
      const lines = [];
      for (let i = 0; i < terminal.buffer.active.length; i++) lines.push(terminal.buffer.active.getLine(i)?.translateToString(true) ?? "");
      return lines.join("\n").trimEnd();
    },
    clear() {
      terminal.reset();
    },
    close() {
      sizes.disconnect();
      terminal.dispose();
    },
  };
}
