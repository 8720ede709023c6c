// Has the clients of providers talk to a scripted model, and prints what they got of it.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const [url, key] = process.argv.slice(2);
const print = (value) => console.log(JSON.stringify(value));
const schema = { type: "object", properties: { path: { type: "string" } } };
const failure = async (client, promise) => {
  try {
    await promise;
    print({ client, failed: "nothing" });
  } catch (error) {
    print({ client, failed: error.constructor.name, status: error.status ?? 0, message: String(error.message), retry: error.headers?.get("retry-after") ?? "" });
  }
};

{
  const client = new Anthropic({ apiKey: key, baseURL: url, maxRetries: 0 });
  const ask = (messages, model = "m-1") =>
    client.messages.stream({ model, max_tokens: 100, system: "Be terse.", tools: [{ name: "read_file", input_schema: schema }], messages }).finalMessage();
  const say = (message) => print({
    client: "anthropic", stop: message.stop_reason, input: message.usage.input_tokens, cached: message.usage.cache_read_input_tokens, output: message.usage.output_tokens,
    text: message.content.filter((b) => b.type === "text").map((b) => b.text).join(""),
    calls: message.content.filter((b) => b.type === "tool_use").map(({ id, name, input }) => ({ id, name, input })),
  });
  const messages = [{ role: "user", content: "go" }];
  const first = await ask(messages);
  say(first);
  messages.push({ role: "assistant", content: first.content });
  await failure("anthropic", ask(messages)); // calls without results
  messages.push({ role: "user", content: first.content.filter((b) => b.type === "tool_use").map((b) => ({ type: "tool_result", tool_use_id: b.id, content: "ok" })) });
  say(await ask(messages));
  say(await client.messages.create({ model: "m-1", max_tokens: 100, messages: [{ role: "user", content: "go" }] }));
  for (const turn of ["limited", "overloaded", "broken"]) await failure("anthropic", ask([{ role: "user", content: turn }]));
  await failure("anthropic", ask(messages, "m-9"));
  await failure("anthropic", new Anthropic({ apiKey: "other", baseURL: url, maxRetries: 0 }).messages.create({ model: "m-1", max_tokens: 1, messages }));
}
{
  const client = new OpenAI({ apiKey: key, baseURL: url + "/v1", maxRetries: 0 });
  const ask = (messages, model = "m-1") =>
    client.chat.completions.stream({ model, max_tokens: 100, stream_options: { include_usage: true }, tools: [{ type: "function", function: { name: "read_file", parameters: schema } }], messages }).finalChatCompletion();
  const say = (completion) => print({
    client: "openai", stop: completion.choices[0].finish_reason, input: completion.usage.prompt_tokens, cached: completion.usage.prompt_tokens_details.cached_tokens,
    output: completion.usage.completion_tokens, text: completion.choices[0].message.content ?? "",
    calls: (completion.choices[0].message.tool_calls ?? []).map((c) => ({ id: c.id, name: c.function.name, input: JSON.parse(c.function.arguments) })),
  });
  const messages = [{ role: "user", content: "go" }];
  const first = await ask(messages);
  say(first);
  const { role, content, tool_calls } = first.choices[0].message;
  messages.push({ role, content, tool_calls: tool_calls.map(({ id, type, function: { name, arguments: text } }) => ({ id, type, function: { name, arguments: text } })) });
  await failure("openai", ask(messages));
  for (const c of tool_calls) messages.push({ role: "tool", tool_call_id: c.id, content: "ok" });
  say(await ask(messages));
  say(await client.chat.completions.create({ model: "m-1", messages: [{ role: "user", content: "go" }] }));
  for (const turn of ["limited", "overloaded", "broken"]) await failure("openai", ask([{ role: "user", content: turn }]));
  await failure("openai", ask(messages, "m-9"));
  await failure("openai", new OpenAI({ apiKey: "other", baseURL: url + "/v1", maxRetries: 0 }).chat.completions.create({ model: "m-1", messages }));
}
process.exit(0);
