// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// The colours of languages in diffs. It is loaded when the first diff is shown. Nothing here
// becomes markup: lowlight returns a tree, of which names of classes and texts are taken.

import { createLowlight } from "lowlight";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import csharp from "highlight.js/lib/languages/csharp";
import css from "highlight.js/lib/languages/css";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import kotlin from "highlight.js/lib/languages/kotlin";
import makefile from "highlight.js/lib/languages/makefile";
import markdown from "highlight.js/lib/languages/markdown";
import php from "highlight.js/lib/languages/php";
import protobuf from "highlight.js/lib/languages/protobuf";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import swift from "highlight.js/lib/languages/swift";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const languages = { bash, c, cpp, csharp, css, dockerfile, go, ini, java, javascript, json, kotlin, makefile, markdown, php, protobuf, python, ruby, rust, sql, swift, typescript, xml, yaml };
const lowlight = createLowlight(languages);

const endings: Record<string, keyof typeof languages> = {
  bash: "bash", c: "c", cc: "cpp", cjs: "javascript", cpp: "cpp", cs: "csharp", css: "css", cxx: "cpp", go: "go", h: "c", hpp: "cpp", html: "xml", ini: "ini", java: "java",
  js: "javascript", json: "json", jsx: "javascript", kt: "kotlin", makefile: "makefile", md: "markdown", mjs: "javascript", mk: "makefile", php: "php", proto: "protobuf",
  py: "python", rb: "ruby", rs: "rust", sh: "bash", sql: "sql", svg: "xml", swift: "swift", toml: "ini", ts: "typescript", tsx: "typescript", xml: "xml", yaml: "yaml", yml: "yaml", dockerfile: "dockerfile",
};

// A Piece is text with the class of its colour.
export type Piece = { text: string; look?: string };

const most = 200_000; // characters that are coloured

// coloured returns the lines of a text in pieces, as the language of a file has them; nothing
// where that is not known.
export function coloured(file: string, text: string): Piece[][] | undefined {
  const name = file.slice(file.lastIndexOf("/") + 1).toLowerCase();
  const language = endings[name.slice(name.lastIndexOf(".") + 1)];
  if (!language || text.length > most) return undefined;
  const lines: Piece[][] = [[]];
  type Node = { type: string; value?: string; children?: Node[]; properties?: { className?: unknown } };
  const walk = (node: Node, look: string | undefined) => {
    if (node.type === "text") {
      node.value!.split("\n").forEach((part, i) => {
        if (i > 0) lines.push([]);
        if (part) lines.at(-1)!.push(look ? { text: part, look } : { text: part });
      });
      return;
    }
    const own = Array.isArray(node.properties?.className) ? String(node.properties.className[0]) : look;
    for (const child of node.children ?? []) walk(child, own);
  };
  walk(lowlight.highlight(language, text) as Node, undefined);
  return lines;
}

// colouredDiff returns the pieces of the lines of a diff, without the sign at their beginning:
// what was is read as one text, and what will be as another.
export function colouredDiff(lines: string[]): (Piece[] | undefined)[] {
  const all: (Piece[] | undefined)[] = lines.map(() => undefined);
  let file = "";
  let hunk: number[] = []; // its lines
  const end = () => {
    for (const gone of ["+", "-"]) { // each text is the hunk without the lines of the other
      const some = hunk.filter((i) => lines[i]![0] !== gone);
      const pieces = coloured(file, some.map((i) => lines[i]!.slice(1)).join("\n"));
      if (pieces?.length === some.length) some.forEach((i, n) => (all[i] = pieces[n]));
    }
    hunk = [];
  };
  let inside = false;
  lines.forEach((line, i) => {
    if (line.startsWith("@@")) {
      end();
      inside = true;
    } else if (inside && /^[ +-]/.test(line)) hunk.push(i);
    else if (!inside && line.startsWith("+++ ") && !line.startsWith("+++ /dev/null")) file = line.slice(4).trim();
    else if (!inside && line.startsWith("--- ") && !line.startsWith("--- /dev/null")) file ||= line.slice(4).trim();
  });
  end();
  return all;
}
