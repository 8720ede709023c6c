// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// A turn of an agent, with the package of sdk/typescript: tools are rendered for the
// model, its calls are parsed and run as batches, a person approves, and the results go
// back to the model, which is a script: ../model.json. A server that asks for tokens finds
// them in AGENT_TOKEN and PERSON_TOKEN.

import { readFile } from "node:fs/promises";
import { allow, type Approval, type BatchResult, Client, deny, Mode, Outcome, text } from "toolserver";

type Block = { type: "text"; text: string } | { type: "tool_use"; id: string; name: string; input: object };

async function main(address: string, script: string): Promise<void> {
  const caller = new Client(address, { token: process.env.AGENT_TOKEN });
  const { session } = await caller.sessions.createSession({ mode: Mode.ASK });
  const agent = caller.within(session!.sessionId);
  const person = new Client(address, { token: process.env.PERSON_TOKEN, session: session!.sessionId });
  const leave = new AbortController();
  const approving = person.approve(decide, leave.signal);
  try {
    for (const tool of await agent.list("read_file", "write_file", "delete_file", "list_dir")) {
      const rendered = {
        // as the API of a model takes it
        name: tool.name,
        description: tool.description,
        input_schema: JSON.parse(tool.inputSchema),
      };
      const required: string[] = rendered.input_schema.required ?? [];
      console.log(`tool ${rendered.name}(${required.join(", ")})`);
    }
    const responses: { content: Block[] }[] = JSON.parse(await readFile(script, "utf8"));
    for (const { content } of responses) {
      const batch = agent.batch();
      for (const block of content) {
        // with a model that streams: as they come
        if (block.type === "text") {
          console.log(`model: ${block.text}`);
        } else {
          batch.call({ id: block.id, tool: block.name, input: block.input });
        }
      }
      (await batch.results()).forEach(show); // the next message to the model
    }
  } finally {
    leave.abort();
    await approving;
    person.close();
    caller.close();
  }
}

/** The person: notes may be written, and nothing is deleted. */
function decide({ tool }: Approval) {
  return tool === "delete_file" ? deny("Keep it.") : allow();
}

/** Prints a result as the model is given it. */
function show({ callId, finished, refused }: BatchResult): void {
  const failed = finished?.outcome !== Outcome.SUCCEEDED;
  console.log(`tool_result ${callId}, is_error ${failed}`);
  const shown = finished ? text(finished) : (refused?.message ?? "");
  for (const line of shown.replace(/\n$/, "").split("\n")) {
    console.log(`  | ${line}`);
  }
}

await main(process.argv[2] ?? "localhost:8665", process.argv[3] ?? "../model.json");
