#!/usr/bin/env python3
"""Makes goldens.json: what transformers' apply_chat_template makes of conversations.

    python3 -m venv VENV && VENV/bin/pip install --upgrade transformers jinja2 tokenizers
    VENV/bin/python make_goldens.py

The reference is the newest release; goldens.json says which that was, and when.
engine_templates.json has small templates for what Jinja2 itself does.

The templates beside this file were written for it: each has the constructs of its family's own
template, and the same special tokens. The tokenizers are small: the demo's byte-level one, and one
with byte fallback (byte_fallback.json), with the family's special tokens added. The test builds the
same ones from what goldens.json says.
"""
import datetime
import importlib.metadata
import json
import os
import pathlib
import re
import time

os.environ["TZ"] = "UTC"
time.tzset()

import tokenizers  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402
from transformers.utils import chat_template_utils  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
DEMO = HERE.parents[3] / "demo/target/tokenizer.json"
NOW = 1_720_051_323  # 2024-07-04 00:02:03 UTC


def byte_fallback():
    """SentencePiece-like, as Llama 2, without a prefix of its own."""
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for byte in range(256):
        vocab[f"<0x{byte:02X}>"] = len(vocab)
    pieces = ["▁"] + [chr(code) for code in range(0x21, 0x7F)] + ["é", "ü"]
    merges = [("t", "h"), ("th", "e"), ("▁", "the"), ("i", "n"), ("e", "r"), ("o", "u"),
              ("y", "ou"), ("▁", "you"), ("u", "s"), ("us", "er"), ("<", "|"), ("|", ">"),
              ("e", "n"), ("en", "d"), ("[", "I"), ("▁", "▁")]
    pieces += [left + right for left, right in merges]
    for piece in pieces:
        vocab.setdefault(piece, len(vocab))
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": replace,
        "pre_tokenizer": None,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                       {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True,
                  "vocab": vocab, "merges": [list(merge) for merge in merges]},
    }


def special(*names, **more):
    return [{"content": name, "special": True, **more} for name in names]


def plain(*names):
    return [{"content": name, "special": False} for name in names]


FAMILIES = {
    "llama3": ("demo", special("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
                               "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>", "<|python_tag|>"),
               {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}),
    "qwen2.5": ("demo", special("<|im_start|>", "<|im_end|>") +
                plain("<tool_call>", "</tool_call>"),
                {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}),
    "qwen3": ("demo", special("<|im_start|>", "<|im_end|>") +
              plain("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>",
                    "<think>", "</think>"),
              {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}),
    "mistral": ("byte_fallback", special("[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]",
                                         "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
                {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}),
    "gemma3": ("byte_fallback", special("<pad>", "<eos>", "<bos>", "<start_of_turn>",
                                        "<end_of_turn>", "<start_of_image>") +
               plain("\n\n", "▁▁", "▁▁▁"),
               {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>"}),
    "phi3": ("byte_fallback", special("<|endoftext|>", "<|assistant|>", "<|system|>", "<|end|>",
                                      "<|user|>", rstrip=True),
             {"bos_token": "<s>", "eos_token": "<|endoftext|>", "unk_token": "<unk>"}),
    "smollm2": ("demo", special("<|im_start|>", "<|im_end|>"),
                {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}),
    "constructs": ("demo", special("<|bos|>", "<|eos|>"),
                   {"bos_token": "<|bos|>", "eos_token": "<|eos|>"}),
}


def say(role, content, **more):
    return {"role": role, "content": content, **more}


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Says how the weather is. \"Now\", in <b>any</b> place.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "City, e.g. Zürich"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer", "maximum": 14}},
            "required": ["place"]}}}
CALL = {"id": "call12345", "type": "function",
        "function": {"name": "get_weather", "arguments": {"place": "Zürich", "days": 3, "f": 0.5}}}
TALK = [say("user", "Hello, you there!"), say("assistant", "Hi. What can I do?"),
        say("user", "  Tell me\tof the user's\n\n  <b>é</b> 日本語 🙂 {{ x }} {% y %}  ")]
SYSTEM = [say("system", "Be brief."), *TALK]
TOOLS = [say("user", "How is the weather in Zürich?"),
         say("assistant", "", tool_calls=[CALL]),
         say("tool", "{\"degrees\": 12.5}", tool_call_id="call12345"),
         say("assistant", "It is 12.5 degrees."), say("user", "Thanks")]
THOUGHTS = [say("user", "2 + 2?"),
            say("assistant", "<think>\nA sum.\nOf two.\n</think>\n\nIt is 4."),
            say("user", "And 3 + 3?"),
            say("assistant", "<think>\nAgain\n</think>\n\n6", reasoning_content="Said so."),
            say("user", "<tool_response>\nno\n</tool_response>"), say("assistant", "So <think>")]
PARTS = [say("user", [{"type": "text", "text": " One. "}, {"type": "text", "text": "Two."}])]
WRONG_ORDER = [say("user", "a"), say("user", "b")]
# As OpenAI's package gives an answer back: members that are null.
NULLS = [say("user", "How is the weather in Zürich?"),
         say("assistant", None, tool_calls=[CALL], refusal=None, reasoning_content=None),
         say("tool", "{\"degrees\": 12.5}", tool_call_id="call12345", name=None),
         say("assistant", "It is 12.5 degrees.", tool_calls=None), say("user", "Thanks")]
REASONED = [say("user", "2 + 2?"), say("assistant", "4", reasoning="A sum."), say("user", "And?"),
            say("assistant", "6", thinking="Again."), say("user", "So?")]
DEVELOPER = [say("developer", "Be brief."), *TALK]

CASES = {
    "talk": {"messages": TALK},
    "one": {"messages": TALK[:1], "add_generation_prompt": False},
    "system": {"messages": SYSTEM},
    "answered": {"messages": SYSTEM + [say("assistant", "Done. ")], "add_generation_prompt": False},
    "tools": {"messages": TOOLS[:1], "tools": [WEATHER]},
    "two_tools": {"messages": [SYSTEM[0], TOOLS[0]], "tools": [WEATHER, WEATHER]},
    "called": {"messages": TOOLS, "tools": [WEATHER]},
    "thoughts": {"messages": THOUGHTS},
    "no_thinking": {"messages": TALK, "arguments": {"enable_thinking": False}},
    "date": {"messages": TALK, "arguments": {
        "date_string": "1 Jan 2030", "tools_in_user_message": False, "builtin_tools":
        ["code_interpreter", "search"]}},
    "parts": {"messages": PARTS},
    "wrong_order": {"messages": WRONG_ORDER},
    "nulls": {"messages": NULLS, "tools": [WEATHER]},
    "reasoned": {"messages": REASONED},
    "developer": {"messages": DEVELOPER},
}
ONLY = {"parts": {"gemma3"}}


class FixedTime(chat_template_utils.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW, tz)


def left_out(messages, text):
    """Of messages, not of the assistant, the first whose text the prompt lacks."""
    for index, message in enumerate(messages):
        content = message.get("content")
        texts = [content] if isinstance(content, str) else [part["text"] for part in content or []]
        words = [word for text in texts for word in re.findall("[A-Za-z0-9]+", text)]
        if message["role"] != "assistant" and any(word not in text for word in words):
            return index
    return None


def make(family):
    base, added, tokens = FAMILIES[family]
    path = DEMO if base == "demo" else HERE / "byte_fallback.json"
    fast = tokenizers.Tokenizer.from_file(str(path))
    if base == "byte_fallback":
        added = special("<unk>", "<s>", "</s>") + added
    defaults = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
    added = [{**defaults, **token} for token in added]
    for token in added:
        one = tokenizers.AddedToken(**token)
        (fast.add_special_tokens if token["special"] else fast.add_tokens)([one])
        token["id"] = fast.token_to_id(token["content"])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=fast, chat_template=(HERE / f"templates/{family}.jinja").read_text(),
        **tokens)
    cases = []
    for name, case in CASES.items():
        if family not in ONLY.get(name, {family}):
            continue
        options = {"tools": case.get("tools"),
                   "add_generation_prompt": case.get("add_generation_prompt", True),
                   **case.get("arguments", {})}
        result = {"name": name, **case}
        try:
            result["text"] = tokenizer.apply_chat_template(case["messages"], tokenize=False,
                                                           **options)
        except Exception as error:  # what raise_exception raises, or a template that cannot
            result["error"] = str(error) if type(error).__name__ == "TemplateError" else ""
        else:
            ids = tokenizer.apply_chat_template(case["messages"], tokenize=True,
                                                return_dict=False, **options)
            result["ids"] = list(ids)
            if left_out(case["messages"], result["text"]) is not None:
                result["left_out"] = left_out(case["messages"], result["text"])
        cases.append(result)
    return {"family": family, "base": base, "added_tokens": added, "special_tokens": tokens,
            "cases": cases}


def split_special_tokens():
    """Texts in which the names of special tokens are text."""
    base, added, _ = FAMILIES["llama3"]
    fast = tokenizers.Tokenizer.from_file(str(DEMO))
    fast.add_special_tokens([token["content"] for token in added])
    fast.encode_special_tokens = True
    texts = ["plain text, you", "a <|eot_id|> b", "<|eot_id|><|eot_id|>", "<|begin_of_text|>x",
             "<|<|eot_id|>|>", "<|eot_id|", "é<|end_header_id|>\n\n日本<|endoftext|>"]
    return [{"text": text, "ids": fast.encode(text, add_special_tokens=False).ids}
            for text in texts]


def engine():
    """What Jinja2 makes of small templates, as transformers sets it up. The user says nothing: a
    message of which the prompt has nothing is refused."""
    messages = [say("user", ""), say("assistant", "<think>\nx</think>\nyo")]
    results = []
    for template in json.loads((HERE / "engine_templates.json").read_text()):
        result = {"template": template}
        try:
            result["text"] = chat_template_utils.render_jinja_template(
                [messages], chat_template=template, add_generation_prompt=True)[0][0]
        except Exception:
            result["error"] = True
        results.append(result)
    return {"messages": messages, "cases": results}


def reference():
    names = ["transformers", "jinja2", "tokenizers"]
    versions = {name: importlib.metadata.version(name) for name in names}
    return {**versions, "made": datetime.date.today().isoformat()}


def write(goldens):
    """One case a line."""
    def lines(items):
        return ",\n".join(json.dumps(item, ensure_ascii=False) for item in items)
    families = [
        json.dumps({key: family[key] for key in family if key != "cases"}, ensure_ascii=False)[:-1]
        + ', "cases": [\n' + lines(family["cases"]) + "]}" for family in goldens["families"]]
    (HERE / "goldens.json").write_text(
        f'{{"reference": {json.dumps(goldens["reference"])},\n"now": {goldens["now"]}, '
        '"families": [\n' + ",\n".join(families) +
        '],\n"split_special_tokens": [\n' + lines(goldens["split_special_tokens"]) +
        '],\n"engine": {"messages": ' + json.dumps(goldens["engine"]["messages"]) +
        ', "cases": [\n' + lines(goldens["engine"]["cases"]) + "]}}\n")


made = reference()  # before the time is another's
chat_template_utils.datetime = FixedTime
(HERE / "byte_fallback.json").write_text(
    json.dumps(byte_fallback(), ensure_ascii=False, indent=None) + "\n")
goldens = {"reference": made, "now": NOW, "engine": engine(), "families": [make(family) for family in FAMILIES],
           "split_special_tokens": split_special_tokens()}
write(goldens)
