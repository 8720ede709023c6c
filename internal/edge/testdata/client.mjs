// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// client.mjs uses a server with the client of the official SDK for TypeScript:
// node client.mjs NODE_MODULES http URL, or node client.mjs NODE_MODULES stdio COMMAND ARGS...
// It fails where something is not as it should be, and prints what it did.

import assert from "node:assert/strict";
import path from "node:path";

const [modules, kind, target, ...args] = process.argv.slice(2);
const sdk = (file) => import(path.join(modules, "@modelcontextprotocol/sdk/dist/esm", file));
const { Client } = await sdk("client/index.js");
const { ElicitRequestSchema } = await sdk("types.js");

let transport;
if (kind === "http") {
  const { StreamableHTTPClientTransport } = await sdk("client/streamableHttp.js");
  transport = new StreamableHTTPClientTransport(new URL(target));
} else {
  const { StdioClientTransport } = await sdk("client/stdio.js");
  transport = new StdioClientTransport({ command: target, args, env: process.env, stderr: "inherit" });
}

const client = new Client({ name: "test", version: "1" }, { capabilities: { elicitation: {} } });
const asked = [];
client.setRequestHandler(ElicitRequestSchema, async (request) => {
  asked.push(request.params.message);
  return { action: "accept", content: { answer: "allow" } };
});
await client.connect(transport);
assert.equal(client.getServerVersion().name, "toolserver");

const { tools } = await client.listTools();
const read = tools.find((tool) => tool.name === "read_file");
assert.ok(read.annotations.readOnlyHint);

const text = (result) => result.content.map((c) => c.text ?? "").join("");
let result = await client.callTool({ name: "read_file", arguments: { path: "a.txt" } });
assert.match(text(result), /hello/);

result = await client.callTool({ name: "structured_output", arguments: { data: { answer: 42 } } });
assert.match(JSON.stringify(result.structuredContent), /42/);

const progress = [];
await client.callTool({ name: "sleep", arguments: { duration_ms: 1000 } }, undefined, { onprogress: (p) => progress.push(p.progress) });
assert.ok(progress.length > 0 && progress.every((p, i) => i === 0 || p > progress[i - 1]), `progress ${progress}`);

result = await client.callTool({ name: "write_file", arguments: { path: "b.txt", content: "from TypeScript\n" } });
assert.ok(!result.isError, text(result));
assert.equal(asked.length, 1);
assert.match(asked[0], /\+from TypeScript/);

const stop = new AbortController();
const long = client.callTool({ name: "sleep", arguments: { duration_ms: 600000 } }, undefined, { signal: stop.signal, onprogress: () => stop.abort("enough") });
await assert.rejects(long);

await assert.rejects(client.readResource({ uri: "artifact:none" }));
await client.close();
console.log(`ok: ${tools.length} tools over ${kind}`);
