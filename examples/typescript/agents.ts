// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Serves an agent and uses it, with the package of sdk/typescript: the model of a caller
// gives a task to the librarian, which this program serves, and whose model works on it in a
// session of its own. Both models are scripts, in ../agents.json. The server's configuration
// has agents: {serve: true}. One that asks for tokens finds them in AGENT_TOKEN.

import { readFile } from "node:fs/promises";
import { Client, Mode, Outcome, type Task, text } from "toolserver";

type Block = { type: "text"; text: string } | { type: "tool_use"; id: string; name: string; input: object };
type Model = { content: Block[] }[];

async function main(address: string, script: string): Promise<void> {
  const models: { caller: Model; librarian: Model } = JSON.parse(await readFile(script, "utf8"));
  const caller = new Client(address, { token: process.env.AGENT_TOKEN });
  const librarian = {
    name: "librarian",
    description: "Knows about books.",
    mode: Mode.PLAN,
    work: async (task: Task) => {
      console.log(`librarian is asked: ${task.prompt}`);
      return loop(task.client, "librarian", models.librarian, (said) => task.tell(said));
    },
  };
  let serving = Promise.resolve();
  try {
    await new Promise<void>((ready, failed) => {
      serving = caller.serve([librarian], { ready });
      serving.catch(failed);
    });
    const { session } = await caller.sessions.createSession({ mode: Mode.ALLOW });
    await loop(caller.within(session!.sessionId), "caller", models.caller, () => {});
  } finally {
    caller.close();
    await serving;
  }
}

/** A model that calls tools until it says something and calls none. Returns that. */
async function loop(client: Client, who: string, script: Model, tell: (said: string) => void): Promise<string> {
  let said = "";
  for (const { content } of script) {
    const batch = client.batch();
    for (const block of content) {
      if (block.type === "tool_use") {
        batch.call({ id: block.id, tool: block.name, input: block.input });
        continue;
      }
      said = block.text;
      console.log(`${who}: ${said}`);
      tell(said);
    }
    for (const { callId, finished, refused } of await batch.results()) {
      // the next message to the model
      console.log(`${who} gets ${callId}, is_error ${finished?.outcome !== Outcome.SUCCEEDED}`);
      const shown = finished ? text(finished) : (refused?.message ?? "");
      for (const line of shown.replace(/\n$/, "").split("\n")) {
        console.log(`  | ${line}`);
      }
    }
  }
  return said;
}

await main(process.argv[2] ?? "localhost:8665", process.argv[3] ?? "../agents.json");
