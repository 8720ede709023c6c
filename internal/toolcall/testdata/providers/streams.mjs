// Sends requests with what was rendered by the clients of providers to a server that
// answers with the streams of the tests, and prints the calls that the clients read.
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { deepStrictEqual } from "node:assert";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const [dir] = process.argv.slice(2);
const golden = (name) => JSON.parse(readFileSync(`${dir}/${name}`));
let answer, sent;
const server = createServer(async (request, response) => {
  let body = "";
  for await (const chunk of request) body += chunk;
  sent = JSON.parse(body);
  response.writeHead(200, { "content-type": "text/event-stream" }).end(readFileSync(`${dir}/streams/${answer}`) + "\n\n");
}).listen(0, "127.0.0.1");
await new Promise((ready) => server.once("listening", ready));
const url = `http://127.0.0.1:${server.address().port}`;
const print = (provider, id, name, input) => console.log(JSON.stringify({ provider, id, name, input }));

answer = "anthropic_complete.in";
const tools = golden("anthropic/tools.json");
const anthropic = new Anthropic({ apiKey: "none", baseURL: url, maxRetries: 0 });
const message = await anthropic.messages
  .stream({ model: "m", max_tokens: 10, tools, messages: [golden("anthropic/results.json")] })
  .finalMessage();
deepStrictEqual([sent.tools, sent.messages], [tools, [golden("anthropic/results.json")]]);
for (const block of message.content) if (block.type === "tool_use") print("anthropic", block.id, block.name, block.input);

answer = "openai_stream.in";
const openai = new OpenAI({ apiKey: "none", baseURL: url, maxRetries: 0 });
const functions = golden("openai/tools.json");
const completion = await openai.chat.completions
  .stream({ model: "m", tools: functions, messages: golden("openai/results.json") })
  .finalChatCompletion();
deepStrictEqual(sent.tools, functions);
for (const call of completion.choices[0].message.tool_calls) print("openai", call.id, call.function.name, JSON.parse(call.function.arguments || "{}"));

answer = "openai-responses_stream.in";
const items = [];
for await (const event of await openai.responses.create({ model: "m", stream: true, tools: golden("openai-responses/tools-strict.json"), input: golden("openai-responses/results.json") }))
  if (event.type === "response.output_item.done" && event.item.type === "function_call") items.push(event.item);
deepStrictEqual(sent.tools, golden("openai-responses/tools-strict.json"));
for (const item of items) print("openai-responses", item.call_id, item.name, JSON.parse(item.arguments || "{}"));
server.close();
process.exit(0);
