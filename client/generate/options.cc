#include "client/generate/options.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/common/prompt.h"
#include "client/common/say.h"
#include "common/base/status_macros.h"
#include "common/sampling/logprobs.h"
#include "common/telemetry/span_context.h"

namespace tandem::client {
namespace {

// What is the command's own: the resumed output counts towards the length.
absl::Status ValidateLength(const GenerateOptions& options) {
  const uint64_t max_tokens = options.max_tokens.value_or(kDefaultMaxTokens);
  const int ids = options.request.request.output_prefix_ids_size();
  if (max_tokens == 0 || static_cast<uint64_t>(ids) < max_tokens) return absl::OkStatus();
  return flags::BadFlag(
      "max-tokens", absl::StrCat(max_tokens),
      absl::StrCat("the ", ids, " ids of --output-prefix-ids count; must be above that, or 0"));
}

absl::Status ValidateTrace(const GenerateOptions& options) {
  if (options.traceparent.empty()) return absl::OkStatus();
  if (!telemetry::ParseTraceparent(options.traceparent).has_value()) {
    return flags::BadFlag(
        "traceparent", options.traceparent,
        "must be 00-TRACE_ID-SPAN_ID-FLAGS, of 32, 16 and 2 hexadecimal digits in "
        "lower case, and neither id all zeros");
  }
  if (options.trace) {
    return absl::InvalidArgumentError(
        "--trace and --traceparent: give only one of them; the flags of --traceparent, 00 or 01, "
        "say whether it is sampled");
  }
  return absl::OkStatus();
}

}  // namespace

void GenerateOptions::AddTo(flags::FlagSet& flags) {
  orchestrator.AddTo(flags);
  flags.Group("Text");
  prompt.AddTo(flags, "the text to continue");
  flags.Switch("chat", &chat,
               "send the text as a user's message, through the model's chat template");
  flags.Text("system", &system, "with --chat: system message before it");
  flags.Number("max-tokens", &max_tokens, 0, UINT32_MAX,
               absl::StrCat("maximum output tokens; 0 = the orchestrator's --default-max-tokens. "
                            "Default: ",
                            kDefaultMaxTokens, ", or what fits into the context"));
  flags.Letter('n', "max-tokens");
  flags.TextList("stop", &stop, "end the text before the first of these; may be repeated");
  flags.Number("samples", &samples, 1, messages::kMaxRequestSamples, "number of independent texts");
  flags.Number("logprobs", &logprobs, 0, sampling::kMaxTopLogprobs,
               "log probabilities with this many alternatives per token; 0 = only the token's "
               "own. Default: none");
  flags.Switch("processed-logprobs", &processed_logprobs,
               "log probabilities after sampling options, not of the raw model");
  flags.Switch("prompt-logprobs", &prompt_logprobs,
               "log probabilities of the prompt's tokens, too");
  for (const messages::RequestOption& option : messages::RequestOptions()) {
    const bool shared =
        option.under("sampling") || option.under("speculation") || option.path == "seed";
    if (!shared && !option.help.empty()) request.Add(option, flags);
  }
  flags.Duration("timeout", &timeout, absl::ZeroDuration(), absl::InfiniteDuration(),
                 "maximum time of the request; 0 = unlimited");
  request.AddTo(flags);
  flags.Group("Output");
  flags.Choice("format", &format, {"text", "json"}, "text, or json: one object per line");
  flags.Switch("quiet", &quiet,
               "print the text and errors only, without the record of speculation");
  flags.Text("record", &record,
             "file to write the final JSON object to, with any --format; it must not exist");
  flags.Switch("force", &force, "let --record replace an existing file");
  flags.OptionalChoice("timeline", &timeline, {"short", "all"}, "short",
                       "draw where the time of each round went, for the first and the slowest "
                       "rounds or for all; with --format=json add the rounds to the final object");
  flags.Choice("color", &color, {"auto", "always", "never"},
               "color accepted draft tokens and the timeline (auto: on a terminal, unless "
               "NO_COLOR is set)");
  flags.Switch("trace", &trace,
               "trace this request and print the trace id; requires services with an exporter "
               "(OTEL_TRACES_EXPORTER=otlp)");
  flags.Text("traceparent", &traceparent,
             "W3C Trace Context: the parent span, 00-TRACE_ID-SPAN_ID-FLAGS in hexadecimal digits");
}

absl::Status GenerateOptions::Validate() const {
  TANDEM_RETURN_IF_ERROR(orchestrator.Validate());
  TANDEM_RETURN_IF_ERROR(prompt.Validate("the text to continue"));
  if (!system.empty() && !chat) {
    return absl::InvalidArgumentError(
        "--system requires --chat: without it the text is continued as it is");
  }
  if (!IsUtf8(system)) return flags::BadFlag("system", system.substr(0, 40), "must be UTF-8");
  for (const std::string& text : stop) {
    if (!IsUtf8(text)) return flags::BadFlag("stop", text.substr(0, 40), "must be UTF-8");
  }
  if (!logprobs.has_value() && (processed_logprobs || prompt_logprobs)) {
    return absl::InvalidArgumentError(absl::StrCat(
        processed_logprobs ? "--processed-logprobs" : "--prompt-logprobs",
        " requires --logprobs=N, 0 (only the token's own) to ", sampling::kMaxTopLogprobs));
  }
  TANDEM_RETURN_IF_ERROR(ValidateTrace(*this));
  TANDEM_RETURN_IF_ERROR(ValidateLength(*this));
  RequestFlags all = request;
  all.request.set_samples(static_cast<uint32_t>(samples));
  all.request.mutable_stop()->mutable_strings()->Assign(stop.begin(), stop.end());
  return all.Validate();
}

v1::GenerateRequest MakeRequest(const GenerateOptions& options, absl::string_view prompt) {
  v1::GenerateRequest request;
  if (options.chat) {
    v1::Conversation& conversation = *request.mutable_conversation();
    if (!options.system.empty()) Say("system", options.system, conversation);
    Say("user", prompt, conversation);
  } else {
    request.set_text(std::string(prompt));
  }
  request.set_max_tokens(static_cast<uint32_t>(options.max_tokens.value_or(kDefaultMaxTokens)));
  request.set_fit_max_tokens(!options.max_tokens.has_value());
  for (const std::string& text : options.stop) request.mutable_stop()->add_strings(text);
  request.set_samples(static_cast<uint32_t>(options.samples));
  if (options.logprobs.has_value()) {
    v1::LogprobOptions& logprobs = *request.mutable_logprobs();
    logprobs.set_top(static_cast<uint32_t>(*options.logprobs));
    logprobs.set_processed(options.processed_logprobs);
    logprobs.set_prompt(options.prompt_logprobs);
    request.set_token_bytes(true);
  }
  request.set_round_records(!options.timeline.empty());
  options.request.Apply(request);
  return request;
}

std::string MakeTraceparent(const GenerateOptions& options,
                            const std::function<uint64_t()>& random) {
  if (!options.trace) return options.traceparent;
  const auto id = [&random] {  // all zeros are not an id
    uint64_t bits = 0;
    while (bits == 0) bits = random();
    return bits;
  };
  const uint64_t high = id();
  const uint64_t low = id();
  return absl::StrFormat("00-%016x%016x-%016x-01", high, low, id());
}

}  // namespace tandem::client
