# SPDX-License-Identifier: Apache-2.0
"""Conversations in the form of OpenAI's API, as the messages of Tandem's.

What is accepted is what the HTTP front accepts, so that one list of messages makes the same prompt
over either. Members that are None count as absent, as in the dictionaries and objects of the openai
package. """

from __future__ import annotations

import difflib
import json
from typing import Any, Iterable, Mapping, Optional, Protocol, Sequence, TypedDict, Union

from tandem_client import v1 as pb


class TextPart(TypedDict):
    """A part of a content. No other type is supported."""

    type: str  # text
    text: str


class ModelDump(Protocol):
    """A pydantic object, such as `completion.choices[0].message` of the openai package."""

    def model_dump(self) -> Mapping[str, Any]:
        """Its members."""


class Message(TypedDict, total=False):
    """A turn of a conversation, in the form of OpenAI's API."""

    role: str  # system, developer, user, assistant, tool or function
    content: Union[str, Sequence[TextPart], None]
    name: Optional[str]
    reasoning_content: Optional[str]  # of the assistant, where the template knows it
    # {"id", "function": {"name", "arguments"}}
    tool_calls: Optional[Sequence[Union[Mapping[str, Any], ModelDump]]]
    tool_call_id: Optional[str]  # of a tool: which call it answers
    # Answers have these, too. Only None is supported of the first three: a template has no place
    # for them.
    refusal: None
    audio: None
    function_call: None
    annotations: Any  # changes no prompt, as the next
    token_ids: Any


_TEXTS = ("role", "name", "reasoning_content", "tool_call_id")


def is_message(value: Any) -> bool:
    return isinstance(value, Mapping) or hasattr(value, "model_dump")


def set_conversation(conversation: pb.Conversation, messages: Sequence[Any], options: Mapping[str, Any]) -> None:
    """TypeError and ValueError name what cannot be sent, by its path within the messages."""
    for index, message in enumerate(messages):
        _set_message(conversation.messages.add(), message, f"messages[{index}]")
    conversation.tools.extend(_json(tool, f"tools[{index}]") for index, tool in enumerate(options.get("tools", ())))
    if "template_arguments" in options:
        conversation.template_arguments = _json(options["template_arguments"], "template_arguments")
    if "add_generation_prompt" in options:
        conversation.add_generation_prompt = options["add_generation_prompt"]


def did_you_mean(wrong: Any, known: Iterable[str]) -> str:
    nearest = difflib.get_close_matches(str(wrong), list(known), n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def _set_message(to: pb.ChatMessage, message: Any, path: str) -> None:
    members = _members(message, path)
    _check_names(members, Message.__annotations__, path)
    for name in ("refusal", "audio", "function_call"):
        if name in members:
            raise ValueError(f"{path}.{name}: is not supported")
    if "role" not in members:
        raise ValueError(f"{path}.role: is required")
    for name in _TEXTS:
        if name in members:
            setattr(to, name, _text(members[name], f"{path}.{name}"))
    if "content" in members:
        _set_content(to, members["content"], f"{path}.content")
    for index, call in enumerate(_list(members.get("tool_calls", ()), f"{path}.tool_calls")):
        _set_call(to.tool_calls.add(), call, f"{path}.tool_calls[{index}]")


def _set_content(to: pb.ChatMessage, content: Any, path: str) -> None:
    if isinstance(content, str):
        to.content = content
        return
    parts = _list(content, path, "a text or a list of parts")
    if not parts:
        to.content = ""
    for index, part in enumerate(parts):
        place = f"{path}[{index}]"
        members = _members(part, place)
        if members.get("type") != "text":
            raise ValueError(f"{place}.type: is {members.get('type')!r}; only 'text' is supported")
        _check_names(members, ("type", "text"), place)
        to.content_parts.append(_text(members.get("text"), f"{place}.text"))


def _set_call(to: pb.ToolCall, call: Any, path: str) -> None:
    members = _members(call, path)
    if members.get("type", "function") != "function":
        raise ValueError(f"{path}.type: is {members['type']!r}; only 'function' is supported")
    # index: of a call that was streamed in pieces
    _check_names(members, ("id", "type", "function", "index"), path)
    function = _members(members.get("function", {}), f"{path}.function")
    _check_names(function, ("name", "arguments"), f"{path}.function")
    to.id = _text(members.get("id", ""), f"{path}.id")
    to.name = _text(function.get("name"), f"{path}.function.name")
    arguments = function.get("arguments", "")
    to.arguments = (arguments or "{}") if isinstance(arguments, str) else _json(arguments, f"{path}.function.arguments")


def _members(value: Any, path: str) -> Mapping[str, Any]:
    """Those that are not None."""
    if not isinstance(value, Mapping) and hasattr(value, "model_dump"):
        value = value.model_dump()
    if not isinstance(value, Mapping):
        raise TypeError(f"{path}: must be a mapping or a pydantic object, and is {type(value).__name__}")
    return {name: member for name, member in value.items() if member is not None}


def _check_names(members: Mapping[str, Any], known: Iterable[str], path: str) -> None:
    for name in members:
        if name not in known:
            raise TypeError(f"{path}.{name}: is unknown{did_you_mean(name, known)}")


def _text(value: Any, path: str) -> str:
    if value is None:
        raise ValueError(f"{path}: is required")
    if not isinstance(value, str):
        raise TypeError(f"{path}: must be a str, and is {type(value).__name__}")
    return value


def _list(value: Any, path: str, what: str = "a list") -> Sequence[Any]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise TypeError(f"{path}: must be {what}, and is {type(value).__name__}")
    return list(value)


def _json(value: Any, path: str) -> str:
    return json.dumps(value, default=lambda one: _members(one, path))
