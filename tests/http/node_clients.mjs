// OpenAI's package for Node and Vercel's AI SDK against a server: node node_clients.mjs URL PACKAGES
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [url, packages] = process.argv.slice(2);
const require = createRequire(`${packages}/package.json`);
const { OpenAI } = require("openai");
const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");
const { generateText, streamText, APICallError } = require("ai");

const PROMPT = "The city was";
const messages = [{ role: "user", content: PROMPT }];
const options = { model: "target", max_tokens: 12, seed: 7, temperature: 0.8 };

const client = new OpenAI({ baseURL: url, apiKey: "none", maxRetries: 0 });
const whole = await client.completions.create({ ...options, prompt: [PROMPT, "Once"], n: 2 });
assert.deepEqual(whole.choices.map((choice) => choice.index), [0, 1, 2, 3]);
const texts = ["", "", "", ""];
for await (const event of await client.completions.create({ ...options, prompt: [PROMPT, "Once"], n: 2, stream: true })) {
  for (const choice of event.choices) texts[choice.index] += choice.text;
}
assert.deepEqual(texts, whole.choices.map((choice) => choice.text));

const chat = await client.chat.completions.create({ ...options, messages, modalities: ["text"] });
const said = chat.choices[0].message.content;
let streamed = "";
for await (const event of await client.chat.completions.create({ ...options, messages, stream: true })) {
  streamed += event.choices[0]?.delta.content ?? "";
}
assert.equal(streamed, said);
await assert.rejects(client.chat.completions.create({ ...options, messages, max_tokens: 1e6 }),
  (error) => error instanceof OpenAI.BadRequestError && error.code === "context_length_exceeded" && error.param === "max_tokens");
await assert.rejects(client.models.retrieve("OTHER/NAME"), OpenAI.NotFoundError);

const model = createOpenAICompatible({ name: "tandem", baseURL: url, includeUsage: true })("target");
const settings = { model, prompt: PROMPT, maxOutputTokens: 12, seed: 7, temperature: 0.8, maxRetries: 0 };
const generated = await generateText(settings);
assert.equal(generated.text, said);
assert.equal(generated.usage.outputTokens, 12);
const stream = streamText(settings);
let parts = "";
for await (const part of stream.textStream) parts += part;
assert.equal(parts, said);
assert.equal((await stream.usage).outputTokens, 12);
await assert.rejects(generateText({ ...settings, maxOutputTokens: 1e6 }),
  (error) => APICallError.isInstance(error) && error.statusCode === 400 && /maximum context length is/.test(error.message));
