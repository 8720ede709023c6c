// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// What the policy says, as the inbox, the policy page and the tools show it.

import { useEffect, useState } from "preact/hooks";
import type { PreviewJson, TrustTierJson } from "./gen/toolserver/v1/approval_pb";
import type { JudgedEffectJson, VerdictJson } from "./gen/toolserver/v1/policy_pb";
import { effect, size, visible, word } from "./words";
import type { Piece } from "./colours";

export function VerdictBadge({ verdict }: { verdict?: VerdictJson | undefined }) {
  const action = word(verdict?.action, "ACTION_");
  return <span class={`badge ${action}`}>{action || "none"}</span>;
}

// Effects lists what a call would touch, with what each matched.
export function Effects({ effects, more = 0 }: { effects: JudgedEffectJson[]; more?: number }) {
  if (effects.length === 0) return null;
  return (
    <table class="effects">
      <caption>What it touches, and what each part matched</caption>
      <thead>
        <tr>
          <th scope="col">says</th>
          <th scope="col">effect</th>
          <th scope="col">matched</th>
        </tr>
      </thead>
      <tbody>
        {effects.map((judged) => {
          const [verb, rest] = effect(judged.effect);
          return (
            <tr>
              <td>
                <VerdictBadge verdict={judged.verdict} />
              </td>
              <td>
                <span class="dim">{verb}</span> <code>{rest}</code>
              </td>
              <td title={visible(judged.verdict?.reason)}>{visible(judged.verdict?.rule)}</td>
            </tr>
          );
        })}
        {more > 0 && (
          <tr>
            <td colSpan={3}>and {more} more that are not shown</td>
          </tr>
        )}
      </tbody>
    </table>
  );
}

// Preview shows what a call would do: a diff with its colours, a command, or text as it is.
export function Preview({ preview }: { preview?: PreviewJson | undefined }) {
  const diff = preview?.kind === "PREVIEW_KIND_DIFF";
  const lines = (preview?.text ?? "").replace(/\n$/, "").split("\n");
  const [colours, colour] = useState<(Piece[] | undefined)[]>([]);
  useEffect(() => {
    let stale = false;
    colour([]);
    if (diff) import("./colours").then(({ colouredDiff }) => !stale && colour(colouredDiff(lines)), () => {}); // it can be read without
    return () => void (stale = true);
  }, [preview?.text, diff]);
  if (!preview?.text && !preview?.hiddenBytes) return null;
  let inside = false; // of a hunk, where "--- x" is a line "-- x" that goes
  return (
    <figure class="preview">
      <figcaption>{diff ? "The change" : preview.kind === "PREVIEW_KIND_COMMAND" ? "The command" : "What it would do"}</figcaption>
      <pre tabIndex={0} class={diff ? "diff" : preview.kind === "PREVIEW_KIND_COMMAND" ? "command" : ""}>
        {lines.map((line, i) => {
          inside ||= line.startsWith("@@");
          const pieces = colours[i];
          return (
            <span class={diff ? lookOf(line, inside) : undefined}>
              {pieces ? [line[0], ...pieces.map((piece) => (piece.look ? <span class={piece.look}>{visible(piece.text)}</span> : visible(piece.text)))] : visible(line) || " "}
            </span>
          );
        })}
      </pre>
      {preview.hiddenBytes && <p class="alarm">Not shown: {size(Number(preview.hiddenBytes))} more.</p>}
    </figure>
  );
}

function lookOf(line: string, inside: boolean): string | undefined {
  if (!inside && /^(\+\+\+|---) /.test(line)) return "file";
  if (line.startsWith("+")) return "plus";
  if (line.startsWith("-")) return "minus";
  if (line.startsWith("@@")) return "hunk";
  return undefined;
}

// Tiers is what always may mean. Where it is asked for, one is chosen.
export function Tiers({ tiers, chosen, choose, asking }: { tiers: TrustTierJson[]; chosen: number; choose: (i: number) => void; asking?: "allow" | "deny" | undefined }) {
  if (tiers.length === 0) return <p class="dim">The answer is for this one time.</p>;
  return (
    <fieldset class={`tiers ${asking ?? ""}`}>
      <legend>{asking ? `${asking === "allow" ? "Always allow" : "Never allow"} for the rest of the session:` : "Always and never may mean, for the rest of the session:"}</legend>
      {tiers.map((tier, i) => (
        <label>
          {asking && <input type="radio" name="tier" checked={i === chosen} onChange={() => choose(i)} />}
          <kbd>{i + 1}</kbd> <code>{visible(tier.label)}</code> <span class="dim">{word(tier.kind, "TIER_KIND_")}</span>
        </label>
      ))}
    </fieldset>
  );
}
