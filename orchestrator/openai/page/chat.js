// The chat page: it talks to /v1/chat/completions of the port that it came from, and to nothing else. What is said
// stays in this tab.
"use strict";

const $ = (id) => document.getElementById(id);

let said = [];  // {role, content}: the turns that were answered
let scope = newScope();
let running = null;  // an AbortController while an answer comes
let token = sessionStorage.getItem("token") || "";

// The turns of a conversation share what the target computed of them, and no other text does.
function newScope() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return "page-" + Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function headers() {
  const all = { "Content-Type": "application/json" };
  if (token) all.Authorization = "Bearer " + token;
  return all;
}

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

function add(parent, kind, text) {
  const element = document.createElement("div");
  element.className = kind;
  element.textContent = text;
  parent.append(element);
  return element;
}

// What the server said went wrong.
async function problem(answer) {
  const text = await answer.text();
  let message = text;
  try {
    message = JSON.parse(text).error.message;
  } catch { /* not from the service itself: as it is */ }
  if (answer.status === 401) $("access").hidden = false;
  return message || "HTTP " + answer.status;
}

async function look() {
  try {
    const answer = await fetch("v1/models", { headers: headers() });
    if (!answer.ok) return notice(await problem(answer));
    const model = (await answer.json()).data[0];
    $("access").hidden = true;
    $("model").textContent = model.id + ", " + model.max_model_len + " tokens";
    offerDrafters(model.tandem.drafters);
    const chats = model.tandem.chat_template;
    for (const id of ["text", "send", "reset"]) $(id).disabled = !chats;
    notice(chats ? "" : "The model " + model.id + " has no chat template, so it takes no conversations. " +
      "The orchestrator reads one from chat_template.jinja or tokenizer_config.json of its --tokenizer. " +
      "/v1/completions continues a text without one.");
  } catch (error) {
    notice("The service does not answer: " + error.message);
  }
}

// What the drafts offer now; a choice that they still offer stays.
function offerDrafters(names) {
  const select = $("drafter"), chosen = select.value;
  select.length = 1;
  if (names.length > 1) select.add(new Option("auto: the best for each text", "auto"));
  for (const name of names) select.add(new Option(name, name));
  if (names.includes(chosen) || chosen === "auto") select.value = chosen;
}

function request(text) {
  const messages = [...said, { role: "user", content: text }];
  const system = $("system").value.trim();
  if (system) messages.unshift({ role: "system", content: system });
  const tokens = $("draft_tokens").value;
  const body = {
    messages, stream: true, stream_options: { include_usage: true }, return_token_ids: true,
    tandem: { text_runs: true, cache_scope: scope, draft_tokens: tokens === "auto" ? tokens : Number(tokens) },
  };
  if ($("drafter").value) body.tandem.drafter = $("drafter").value;
  if ($("temperature").value) body.temperature = Number($("temperature").value);
  if ($("max_tokens").value) body.max_completion_tokens = Number($("max_tokens").value);
  if ($("seed").value.trim()) body.seed = $("seed").value.trim();
  return body;
}

// The objects of a stream of server-sent events, as they come; an event may come in pieces.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const event = text.slice(0, end);
      if (!event.startsWith("data: ")) continue;
      if (event === "data: [DONE]") return;
      yield JSON.parse(event.slice(6));
    }
  }
}

// Text at the end of `element`, what was drafted in a colour.
function write(element, runs) {
  const view = $("messages");
  const follows = view.scrollHeight - view.scrollTop - view.clientHeight < 40;
  for (const run of runs) {
    const kind = run.accepted ? "accepted" : "own";
    if (!element.lastChild || element.lastChild.className !== kind) {
      element.append(document.createElement("span"));
      element.lastChild.className = kind;
    }
    element.lastChild.textContent += run.text;
  }
  if (follows) view.scrollTop = view.scrollHeight;
}

const speed = (tokens, seconds) => `${((tokens - 1) / seconds).toFixed(0)} tokens per second`;

// What speculation did: below the answer, a part each.
function addRecord(turn, last, reason) {
  const record = last.usage.speculation;
  const tokens = last.usage.completion_tokens;
  const seconds = (last.tandem.timing.total_us - last.tandem.timing.first_token_us) / 1e6;
  const parts = [`${tokens} tokens (${reason}) in ${record.rounds} rounds, ` +
    `${(tokens / Math.max(1, record.rounds)).toFixed(2)} per target pass`];
  const drafted = parts.push(record.draft_tokens > 0 ?
    `${record.accepted_tokens} of ${record.draft_tokens} draft tokens accepted` : "nothing was drafted");
  if (tokens > 1 && seconds > 0) parts.push(speed(tokens, seconds));
  if (record.cached_tokens > 0) parts.push(`${record.cached_tokens} prompt tokens not computed again`);
  parts.push(`rule ${record.rule}, ${record.exact ? "exact" : "NOT exact"}, seed ${last.tandem.seed}`);
  const element = add(turn, "record", "");
  for (const part of parts) add(element, "part", part);
  if (record.draft_tokens === 0) return;
  const share = document.createElement("meter");
  share.max = record.draft_tokens;
  share.value = record.accepted_tokens;
  element.children[drafted - 1].prepend(share);
}

async function answer(text) {
  const turn = document.createElement("section");
  add(turn, "message user", text);
  const element = add(turn, "message assistant running", "");
  $("messages").append(turn);
  $("messages").scrollTop = $("messages").scrollHeight;
  const rate = add(turn, "record", "");  // while the answer comes; the record takes its place
  let content = "", reason = "", last = null, tokens = 0, began = 0;
  const reply = await fetch("v1/chat/completions",
    { method: "POST", headers: headers(), body: JSON.stringify(request(text)), signal: running.signal });
  if (!reply.ok) throw new Error(await problem(reply));
  for await (const event of events(reply.body)) {
    if (event.error) throw new Error(event.error.message);
    if (event.usage) last = event;
    for (const choice of event.choices || []) {
      reason = choice.finish_reason || reason;
      tokens += (choice.token_ids || []).length;
      const now = performance.now();
      began = began || now;
      if (tokens > 1 && now > began) rate.textContent = speed(tokens, (now - began) / 1000);
      if (!choice.delta.content) continue;
      content += choice.delta.content;
      write(element, choice.text_runs);
    }
  }
  if (!last) throw new Error("The stream ended before the answer did.");
  rate.remove();
  addRecord(turn, last, reason);
  $("messages").scrollTop = $("messages").scrollHeight;
  said.push({ role: "user", content: text }, { role: "assistant", content });
}

function busy(is) {
  running = is ? new AbortController() : null;
  $("send").disabled = $("reset").disabled = is;
  $("stop").disabled = !is;
}

async function say() {
  const text = $("text").value.trim();
  if (!text || running) return;
  $("text").value = "";
  notice("");
  busy(true);
  try {
    await answer(text);
  } catch (error) {
    const turn = $("messages").lastChild;
    add(turn, "record", "Not added to the conversation.");
    if (error.name !== "AbortError") notice(error.message);
    if (!$("text").value) $("text").value = text;
  }
  for (const element of document.querySelectorAll(".running")) element.classList.remove("running");
  busy(false);
  $("text").focus();
}

$("say").addEventListener("submit", (event) => { event.preventDefault(); say(); });
$("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  say();
});
$("stop").addEventListener("click", () => running && running.abort());
$("reset").addEventListener("click", () => {
  said = [];
  scope = newScope();
  $("messages").replaceChildren();
  notice("");
});
$("access").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  sessionStorage.setItem("token", token);
  look();
});
look();
