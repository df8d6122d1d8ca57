#include "client/common/request_flags.h"

#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/flags/nearest_name.h"

namespace tandem::client {
namespace {

using messages::OptionType;
using messages::RequestOption;

// "12:1.5,7:-100", added to what is there.
absl::Status AddBiases(absl::string_view text, v1::SamplingOptions& to) {
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(part, absl::MaxSplits(':', 1));
    const std::optional<uint64_t> token = flags::ParseWhole(halves.first, 0, UINT32_MAX);
    double bias = 0;
    const flags::Range range{-sampling::kMaxBias, sampling::kMaxBias};
    if (!token.has_value() || !absl::SimpleAtod(halves.second, &bias) || !range.Contains(bias)) {
      return flags::BadFlag("logit-bias", part,
                            absl::StrCat("must be a token's id and what is added to its logit, ",
                                         range.ToString(), ": 12:1.5"));
    }
    for (const v1::LogitBias& other : to.logit_bias()) {
      if (other.token() == *token) {
        return flags::BadFlag("logit-bias", part,
                              absl::StrCat("token ", *token, " has a bias already; give each one"));
      }
    }
    v1::LogitBias& added = *to.add_logit_bias();
    added.set_token(static_cast<uint32_t>(*token));
    added.set_bias(static_cast<float>(bias));
    if (static_cast<size_t>(to.logit_bias_size()) > sampling::kMaxListedTokens) {
      return flags::BadFlag("logit-bias", part,
                            absl::StrCat("is one too many; at most ", sampling::kMaxListedTokens));
    }
  }
  return absl::OkStatus();
}

absl::Status SetDraftTokens(absl::string_view text, v1::SpeculationOptions& to) {
  const std::optional<uint64_t> number = flags::ParseWhole(text, 0, kMaxDraftTokens);
  if (text != "auto" && !number.has_value()) {
    return flags::BadFlag("draft-tokens", text,
                          absl::StrCat("must be auto, or a whole number, 0 (the target alone) to ",
                                       kMaxDraftTokens, flags::DidYouMean(text, {"auto"})));
  }
  to.clear_draft_tokens();
  if (number.has_value()) to.set_fixed(static_cast<uint32_t>(*number));
  return absl::OkStatus();
}

absl::Status SetDrafter(absl::string_view text, v1::SpeculationOptions& to) {
  const std::vector<std::string> names = absl::StrSplit(text, ',');
  if (names.size() > 1 || text == "auto") {
    to.mutable_drafters()->Add(names.begin(), names.end());
  } else {
    to.set_drafter(std::string(text));
  }
  return absl::OkStatus();
}

}  // namespace

void RequestFlags::Add(const RequestOption& option, flags::FlagSet& flags) {
  const auto set = [this, &option](const auto& value) {
    messages::SetOption(option, messages::OptionValue(value), request);
  };
  // What has a form of its own on a command line.
  if (option.path == "speculation.fixed") {
    return flags.Custom(
        option.flag,
        [this](absl::string_view text) {
          return SetDraftTokens(text, *request.mutable_speculation());
        },
        option.help);
  }
  if (option.path == "speculation.drafter") {
    return flags.Custom(
        option.flag,
        [this](absl::string_view text) { return SetDrafter(text, *request.mutable_speculation()); },
        option.help);
  }
  if (option.path == "sampling.logit_bias") {
    return flags.CustomList(
        option.flag,
        [this](absl::string_view text) { return AddBiases(text, *request.mutable_sampling()); },
        option.help);
  }
  const std::optional<double> given = messages::NumberIn(option, request);
  const auto [name, help, range] = std::tie(option.flag, option.help, option.range);
  switch (option.type()) {
    case OptionType::kSwitch:
      return flags.Switch(name, set, help);
    case OptionType::kWhole:
      return flags.Number(name, set, static_cast<uint64_t>(range.min),
                          range.max < 0x1p64 ? static_cast<uint64_t>(range.max) : UINT64_MAX, "",
                          help);
    case OptionType::kReal:
      return flags.Real(name, set, range, given.has_value() ? absl::StrCat(*given) : "", help);
    case OptionType::kChoice:
      return flags.Choice(name, set, option.choices(), "", help);
    case OptionType::kText:
      return flags.Custom(
          name,
          [set](absl::string_view text) {
            set(std::string(text));
            return absl::OkStatus();
          },
          help);
    case OptionType::kIds:
      return flags.NumberList(
          name,
          [set, count = size_t{0}](uint32_t id) mutable {
            set(std::vector<uint32_t>{id});
            return ++count;
          },
          static_cast<size_t>(range.max), help);
    case OptionType::kOther:
      break;
  }
}

void RequestFlags::AddTo(flags::FlagSet& flags) {
  flags.Group("Speculation");
  for (const RequestOption& option : messages::RequestOptions()) {
    if (option.under("speculation") && !option.help.empty()) Add(option, flags);
  }
  flags.Group("Sampling");
  for (const RequestOption& option : messages::RequestOptions()) {
    if (option.under("sampling") || option.path == "seed") Add(option, flags);
  }
}

absl::Status RequestFlags::Validate() const {
  const absl::Status status = messages::CheckOptions(request);
  return status.ok() ? status : absl::InvalidArgumentError(InFlagsWords(status.message()));
}

void RequestFlags::Apply(v1::GenerateRequest& to) const {
  to.MergeFrom(request);
  if (!draft_tokens().has_value()) to.mutable_speculation()->set_auto_(true);
}

std::optional<uint32_t> RequestFlags::draft_tokens() const {
  const v1::SpeculationOptions& options = request.speculation();
  if (options.draft_tokens_case() != v1::SpeculationOptions::kFixed) return std::nullopt;
  return options.fixed();
}

std::string InFlagsWords(absl::string_view message) {
  return messages::InWordsOf(message, [](const RequestOption& option) {
    return option.flag.empty() ? std::string(option.path) : absl::StrCat("--", option.flag);
  });
}

}  // namespace tandem::client
