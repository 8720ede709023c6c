// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// tasks.mjs calls tools as tasks with the client of the official SDK for TypeScript:
// node tasks.mjs NODE_MODULES http URL, or node tasks.mjs NODE_MODULES stdio COMMAND ARGS...

import assert from "node:assert/strict";
import path from "node:path";

const [modules, kind, target, ...args] = process.argv.slice(2);
const sdk = (file) => import(path.join(modules, "@modelcontextprotocol/sdk/dist/esm", file));
const { Client } = await sdk("client/index.js");
const { CallToolResultSchema, ElicitRequestSchema } = await sdk("types.js");

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
  asked.push(request.params);
  return { action: "accept", content: { answer: "allow" } };
});
await client.connect(transport);
const { tools } = await client.listTools();
assert.ok(tools.every((tool) => tool.execution.taskSupport === "optional"));

const tasks = client.experimental.tasks;
const run = async (name, input) => {
  const seen = [];
  for await (const message of tasks.callToolStream({ name, arguments: input }, CallToolResultSchema, { task: { ttl: 60000 } })) {
    seen.push(message);
  }
  return { task: seen.find((m) => m.type === "taskCreated").task, end: seen.at(-1) };
};

const read = await run("read_file", { path: "a.txt" });
assert.equal(read.end.type, "result", JSON.stringify(read.end));
assert.match(read.end.result.content[0].text, /hello/);
assert.equal(read.end.result._meta["io.modelcontextprotocol/related-task"].taskId, read.task.taskId);
assert.equal((await tasks.getTask(read.task.taskId)).status, "completed");
await assert.rejects(tasks.cancelTask(read.task.taskId), /ended already/);

const write = await run("write_file", { path: "b.txt", content: "as a task\n" });
assert.ok(!write.end.result?.isError, JSON.stringify(write.end));
assert.equal(asked.length, 1);
assert.equal(asked[0]._meta["io.modelcontextprotocol/related-task"].taskId, write.task.taskId);

const long = client.request(
  { method: "tools/call", params: { name: "sleep", arguments: { duration_ms: 600000 }, task: {} } },
  (await sdk("types.js")).CreateTaskResultSchema,
);
const { taskId, status } = (await long).task;
assert.equal(status, "working");
assert.equal((await tasks.cancelTask(taskId)).status, "cancelled");

const ids = (await tasks.listTasks()).tasks.map((task) => task.taskId);
for (const id of [read.task.taskId, write.task.taskId, taskId]) assert.ok(ids.includes(id), `${id} in ${ids}`);
await assert.rejects(tasks.getTask("nothing"));
await client.close();
console.log(`ok: tasks over ${kind}`);
