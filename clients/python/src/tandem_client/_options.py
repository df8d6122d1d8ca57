# SPDX-License-Identifier: Apache-2.0
"""The options of a request, and the message that they make."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Sequence, TypedDict, Union, cast

from tandem_client import v1 as pb
from tandem_client._messages import Message, ModelDump, did_you_mean, is_message, set_conversation


# A text, token ids, or a conversation, of which the model's chat template makes the prompt.
Messages = Sequence[Union[Message, ModelDump]]
Prompt = Union[str, Sequence[int], Messages]


class PromptOptions(TypedDict, total=False):
    """How ids are made of a prompt."""

    # Of a text.
    add_special_tokens: bool
    parse_special_tokens: bool

    # Of a conversation.
    tools: Sequence[Mapping[str, Any]]
    template_arguments: Mapping[str, Any]
    add_generation_prompt: bool


class Options(PromptOptions, total=False):
    """What a request may say besides its prompt. What it does not say, the service and the model's
    files decide.

    Units and ranges are in proto/tandem/v1/generation.proto, under the same names. The service
    checks them. """

    # The text's length and end.
    max_tokens: int
    stop: Union[str, Sequence[str]]  # the text ends before the first of these
    stop_token_ids: Sequence[int]
    ignore_eos: bool
    min_tokens: int
    timeout: float  # seconds, for the whole request, with all that it takes to resume it

    # Several texts, and the same text again.
    samples: int
    first_sample: int
    seed: int
    output_prefix_ids: Sequence[int]  # output that is there already: the text goes on after it

    # How tokens are drawn.
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float]
    banned_token_ids: Sequence[int]
    allowed_token_ids: Sequence[int]

    # What comes with the text.
    logprobs: int  # alternatives per token; 0: log probabilities without alternatives
    processed_logprobs: bool  # of what is drawn from, after all options; needs logprobs
    prompt_logprobs: bool  # of the prompt, too; needs logprobs
    token_bytes: bool  # each id comes with its bytes. Default: only with logprobs
    text_runs: bool  # which of the text came from accepted draft tokens
    round_records: bool

    # Speculation.
    rule: str  # greedy, speculative, block, coupled or lenient
    leniency: float
    draft_tokens: Union[str, int]  # "auto", or tokens per round; 0: plain decoding
    length_policy: str  # auto or heuristic; not with a number of draft_tokens
    # The next three: rules greedy and coupled only.
    draft_nodes: int  # draft tokens in a tree; 0: a chain. Default: auto chooses
    draft_min_confidence: float  # 0 to 1; a chain ends where its estimate falls below
    prepare: int  # 0 to 16 outcomes to prepare a block for; with auto: at most
    drafter: Union[str, Sequence[str]]  # a name; several, or "auto": the best one for each text
    proposal: str  # sampled or greedy
    draft_temperature: float

    # The service.
    priority: int
    cache_scope: Union[str, bytes]
    traceparent: str  # W3C Trace Context: the span that the request belongs to
    request_id: str  # what the service's log and its trace call the request
    user: str  # on whose behalf it is: in the same log and trace


_SAMPLING = pb.SamplingOptions.DESCRIPTOR.fields_by_name
_CONVERSATION = ("tools", "template_arguments", "add_generation_prompt")
# Those that are not a field of the same name and type, or of the call and not of the message.
_OWN_FORM = (*_CONVERSATION, "stop", "stop_token_ids", "ignore_eos", "logprobs", "processed_logprobs", "prompt_logprobs",
             "token_bytes", "draft_tokens", "drafter", "logit_bias", "timeout", "traceparent")


def make_request(prompt: Prompt, options: Options) -> pb.GenerateRequest:
    """TypeError and ValueError say which option cannot be sent. `timeout` and `traceparent` are the
    call's."""
    given = _given(options, Options)
    request = pb.GenerateRequest()
    _set_prompt(request, prompt, given)
    for name, value in given.items():
        if name not in _OWN_FORM:
            _set(_holder(request, name), name, value)
    for token, bias in given.get("logit_bias", {}).items():
        request.sampling.logit_bias.add(token=token, bias=bias)
    _set_stop(request.stop, given)
    _set_draft(request.speculation, given)
    _set_logprobs(request, given)
    return request


def _holder(request: pb.GenerateRequest, name: str) -> Any:
    """The part of a request that has the field of this name."""
    for message in (request, request.sampling, request.speculation):
        if name in message.DESCRIPTOR.fields_by_name:
            return message
    raise AssertionError(name)


def make_tokenize_request(prompt: Union[str, Messages], options: PromptOptions) -> pb.TokenizeRequest:
    """As make_request. A text may be empty."""
    given = _given(options, PromptOptions)
    if not isinstance(prompt, str) and not is_message(next(iter(prompt), None)):
        raise TypeError("what becomes ids is a text or a list of messages")
    request = pb.TokenizeRequest(token_bytes=True)
    _set_prompt(request, prompt, given)
    for name in ("add_special_tokens", "parse_special_tokens"):
        if name in given:
            _set(request, name, given[name])
    return request


def _given(options: Any, known: Any) -> Dict[str, Any]:
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in known.__annotations__ and not (known is Options and name in _SAMPLING):
            raise TypeError(f"there is no option {name!r}{did_you_mean(name, known.__annotations__)}")
    return given


def _set(message: Any, name: str, value: Any) -> None:
    field = message.DESCRIPTOR.fields_by_name[name]
    if field.enum_type is not None:
        return _set_choice(message, name, value)
    if field.type == field.TYPE_BYTES and isinstance(value, str):
        value = value.encode()
    try:
        if hasattr(getattr(message, name), "extend"):  # repeated
            getattr(message, name).extend(value)
        else:
            setattr(message, name, value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None


def _set_prompt(request: Union[pb.GenerateRequest, pb.TokenizeRequest], prompt: Prompt,
                given: Mapping[str, Any]) -> None:
    if isinstance(prompt, str):
        request.text = prompt
    elif isinstance(prompt, bytes):
        raise TypeError("a prompt in text is a str, not bytes")
    elif is_message(prompt):
        raise TypeError("a conversation is a list of messages, and this is one message")
    elif len(prompt) == 0:
        raise ValueError("the prompt is empty")
    elif is_message(prompt[0]):
        return set_conversation(request.conversation, prompt, given)
    elif isinstance(request, pb.GenerateRequest):
        request.ids.ids.extend(cast(Sequence[int], prompt))
    for name in _CONVERSATION:
        if name in given:
            raise ValueError(f"{name} belongs to a conversation: the prompt must be a list of messages")


def _set_stop(stop: pb.StopRules, given: Mapping[str, Any]) -> None:
    strings = given.get("stop", ())
    stop.strings.extend([strings] if isinstance(strings, str) else strings)
    stop.token_ids.extend(given.get("stop_token_ids", ()))
    stop.ignore_eos = given.get("ignore_eos", False)


def _set_draft(speculation: pb.SpeculationOptions, given: Mapping[str, Any]) -> None:
    drafter = given.get("drafter", "")
    if drafter == "auto" or not isinstance(drafter, str):
        speculation.drafters.extend([drafter] if isinstance(drafter, str) else drafter)
    else:
        speculation.drafter = drafter
    draft_tokens = given.get("draft_tokens", "auto")
    if draft_tokens == "auto":
        setattr(speculation, "auto", True)
    elif isinstance(draft_tokens, int):
        _set(speculation, "fixed", draft_tokens)
    else:
        raise ValueError(f"draft_tokens is {draft_tokens!r}; it must be 'auto' or a whole number")


def _set_choice(message: Any, name: str, value: str) -> None:
    """Of an enumeration, whose values are written as "greedy" for RULE_GREEDY."""
    prefix = f"{name.upper()}_"
    known = {one.name[len(prefix):].lower(): one.number
             for one in message.DESCRIPTOR.fields_by_name[name].enum_type.values if one.number != 0}
    if value not in known:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(known)}{did_you_mean(value, known)}")
    setattr(message, name, known[value])


def _set_logprobs(request: pb.GenerateRequest, given: Mapping[str, Any]) -> None:
    request.token_bytes = given.get("token_bytes", "logprobs" in given)
    if "logprobs" not in given:
        for name in ("processed_logprobs", "prompt_logprobs"):
            if given.get(name):
                raise ValueError(f"{name} needs logprobs")
        return
    request.logprobs.SetInParent()
    _set(request.logprobs, "top", given["logprobs"])
    request.logprobs.processed = given.get("processed_logprobs", False)
    request.logprobs.prompt = given.get("prompt_logprobs", False)
