#include "client/generate/options.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/common/prompt.h"
#include "common/base/status_macros.h"
#include "common/sampling/logprobs.h"
#include "common/speculation/cache_scope.h"
#include "common/telemetry/span_context.h"

namespace tandem::client {
namespace {

constexpr size_t kMaxStopStrings = 16;
constexpr size_t kMaxStopBytes = 1024;

constexpr size_t kMaxStopTokens = 64;
constexpr size_t kMaxPrefixIds = 1 << 20;

// What no flag alone can tell.
absl::Status ValidateSamples(const GenerateOptions& options) {
  if (options.first_sample + options.samples > uint64_t{kMaxSampleIndex} + 1) {
    return flags::BadFlag("first-sample", absl::StrCat(options.first_sample),
                          absl::StrCat("the last sample's index must be at most ", kMaxSampleIndex,
                                       "; there are ", options.samples));
  }
  if (!options.output_prefix_ids.empty() && options.samples > 1) {
    return flags::BadFlag("samples", absl::StrCat(options.samples),
                          "with --output-prefix-ids there is one; --first-sample tells which");
  }
  const uint64_t max_tokens = options.max_tokens.value_or(kDefaultMaxTokens);
  if (max_tokens > 0 && options.output_prefix_ids.size() >= max_tokens) {
    return flags::BadFlag(
        "max-tokens", absl::StrCat(max_tokens),
        absl::StrCat("the ", options.output_prefix_ids.size(),
                     " ids of --output-prefix-ids count; must be above that, or 0"));
  }
  return absl::OkStatus();
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
  flags.Number("max-tokens", &max_tokens, 0, UINT32_MAX,
               absl::StrCat("output tokens; 0 = the orchestrator's --default-max-tokens. Default: ",
                            kDefaultMaxTokens, ", or what the context has room for"));
  flags.Letter('n', "max-tokens");
  flags.TextList("stop", &stop, "the text ends before the first of these; may be repeated");
  flags.NumberList("stop-token", &stop_tokens, kMaxStopTokens,
                   "ID[,ID...]: tokens that end the text; may be repeated");
  flags.Switch("ignore-eos", &ignore_eos, "the model's own end-of-text tokens do not end the text");
  flags.Number("samples", &samples, 1, kMaxSamples, "independent texts of the prompt");
  flags.Number("first-sample", &first_sample, 0, kMaxSampleIndex,
               "index of the first of them: its noise under the seed");
  flags.Number("logprobs", &logprobs, 0, sampling::kMaxTopLogprobs,
               "log probabilities, with so many alternatives a token; 0 = just the token's own; "
               "none when absent");
  flags.Switch("processed-logprobs", &processed_logprobs,
               "of the distribution after all options, not of the model itself");
  flags.Switch("prompt-logprobs", &prompt_logprobs, "of the prompt's tokens, too");
  flags.NumberList("output-prefix-ids", &output_prefix_ids, kMaxPrefixIds,
                   "ID[,ID...]: resume after this output; it is not sent again, and counts "
                   "towards --max-tokens; give the --seed of before");
  flags.Text(
      "cache-scope", &cache_scope,
      "texts of one scope that begin alike share what the target computed of their beginning; "
      "at most 64 bytes");
  flags.Number("priority", &priority, 0, kMaxPriority,
               "0 = normal; the higher, the sooner admitted and served");
  flags.Duration("timeout", &timeout, absl::ZeroDuration(), absl::InfiniteDuration(),
                 "the longest that the whole may take; 0 = unlimited");
  sampling.AddTo(flags);
  flags.Group("Output");
  flags.Choice("format", &format, {"text", "json"}, "text, or json: one object a line");
  flags.Switch("quiet", &quiet,
               "as text: the text alone, and errors; nothing of how speculation went");
  flags.Text(
      "record", &record,
      "a file to write the final JSON object to, whatever the format; it must not exist yet");
  flags.Switch("force", &force, "--record replaces an existing file");
  flags.OptionalChoice("timeline", &timeline, {"short", "all"}, "short",
                       "draws where the time of each round went; of many rounds the first and "
                       "the slowest, or all; as JSON: the final object has the rounds");
  flags.Choice("color", &color, {"auto", "always", "never"},
               "of accepted draft tokens and of the time line (auto: on a terminal, unless "
               "NO_COLOR is set)");
  flags.Switch("trace", &trace,
               "asks for a trace of this request, and tells its id; the services must be "
               "started with an exporter (OTEL_TRACES_EXPORTER=otlp)");
  flags.Text("traceparent", &traceparent,
             "W3C Trace Context: the span that this request belongs to, "
             "00-TRACE_ID-SPAN_ID-FLAGS in hexadecimal digits");
}

absl::Status GenerateOptions::Validate() const {
  TANDEM_RETURN_IF_ERROR(orchestrator.Validate());
  TANDEM_RETURN_IF_ERROR(prompt.Validate("the text to continue"));
  if (stop.size() > kMaxStopStrings) {
    return absl::InvalidArgumentError(
        absl::StrCat("--stop is given ", stop.size(), " times; at most ", kMaxStopStrings));
  }
  for (const std::string& text : stop) {
    if (text.empty() || text.size() > kMaxStopBytes || !IsUtf8(text)) {
      return flags::BadFlag("stop", text.substr(0, 40),
                            absl::StrCat("must be UTF-8, 1 to ", kMaxStopBytes, " bytes"));
    }
  }
  TANDEM_RETURN_IF_ERROR(speculation::CheckCacheScope("--cache-scope", cache_scope));
  if (!logprobs.has_value() && (processed_logprobs || prompt_logprobs)) {
    return absl::InvalidArgumentError(absl::StrCat(
        processed_logprobs ? "--processed-logprobs" : "--prompt-logprobs",
        " needs --logprobs=N, 0 (just the token's own) to ", sampling::kMaxTopLogprobs));
  }
  TANDEM_RETURN_IF_ERROR(ValidateTrace(*this));
  TANDEM_RETURN_IF_ERROR(ValidateSamples(*this));
  return sampling.Validate();
}

v1::GenerateRequest MakeRequest(const GenerateOptions& options, absl::string_view prompt) {
  v1::GenerateRequest request;
  request.set_text(std::string(prompt));
  request.set_max_tokens(static_cast<uint32_t>(options.max_tokens.value_or(kDefaultMaxTokens)));
  request.set_fit_max_tokens(!options.max_tokens.has_value());
  for (const std::string& text : options.stop) request.mutable_stop()->add_strings(text);
  request.mutable_stop()->mutable_token_ids()->Add(options.stop_tokens.begin(),
                                                   options.stop_tokens.end());
  request.mutable_stop()->set_ignore_eos(options.ignore_eos);
  request.set_cache_scope(options.cache_scope);
  request.set_priority(static_cast<uint32_t>(options.priority));
  request.set_samples(static_cast<uint32_t>(options.samples));
  request.set_first_sample(static_cast<uint32_t>(options.first_sample));
  request.mutable_output_prefix_ids()->Add(options.output_prefix_ids.begin(),
                                           options.output_prefix_ids.end());
  if (options.logprobs.has_value()) {
    v1::LogprobOptions& logprobs = *request.mutable_logprobs();
    logprobs.set_top(static_cast<uint32_t>(*options.logprobs));
    logprobs.set_processed(options.processed_logprobs);
    logprobs.set_prompt(options.prompt_logprobs);
    request.set_token_bytes(true);
  }
  request.set_round_records(!options.timeline.empty());
  options.sampling.Apply(request);
  return request;
}

std::string MakeTraceparent(const GenerateOptions& options,
                            const std::function<uint64_t()>& random) {
  if (!options.trace) return options.traceparent;
  const auto id = [&random] {  // all zeros are no id
    uint64_t bits = 0;
    while (bits == 0) bits = random();
    return bits;
  };
  const uint64_t high = id();
  const uint64_t low = id();
  return absl::StrFormat("00-%016x%016x-%016x-01", high, low, id());
}

}  // namespace tandem::client
