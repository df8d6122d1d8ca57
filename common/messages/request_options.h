// The options of a request, each declared once: its range, its name among the flags of `tandem` and
// over HTTP, and what it is for. From this table come the checks of a request, the flags of
// `generate`, `bench` and `chat`, the fields over HTTP, the names in their errors, and the codec of
// SamplingOptions (sampling_options.h). An option's type is that of its field (generation.proto).
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/flags/values.h"
#include "common/sampling/parameters.h"
#include "tandem/v1/generation.pb.h"

namespace google::protobuf {
class FieldDescriptor;
class Message;
}  // namespace google::protobuf

namespace tandem::messages {

inline constexpr uint32_t kMaxDraftTokens = 16;  // in a round, on one path
inline constexpr uint32_t kMaxRequestSamples = 16;
inline constexpr uint32_t kSampleIndices = 65536;

// Whole numbers: 32 bits, or all 64 of a seed. Choices: an enum's values by their short names
// (greedy for RULE_GREEDY).
enum class OptionType : uint8_t { kSwitch, kWhole, kReal, kChoice, kText, kIds, kOther };

struct RequestOption {
  absl::string_view path;  // of its field in GenerateRequest
  // Of a number: its value. Of a text and of ids: how many bytes, how many ids at most; 0: any. Of
  // others none.
  flags::Range range;
  absl::string_view flag;  // without "--"; empty: it has none
  absl::string_view json;  // empty: it has none; "tandem." begins a member of that object
  absl::string_view help;  // of the flag; empty: the flag is declared by hand, or there is none
  // Where it is kept, if it is an option of SamplingOptions and no list of biases.
  std::variant<std::monostate, double sampling::SamplingParameters::*,
               uint32_t sampling::SamplingParameters::*,
               std::vector<uint32_t> sampling::SamplingParameters::*>
      member;

  const google::protobuf::FieldDescriptor& field() const;
  OptionType type() const;
  std::vector<std::string> choices() const;  // of type kChoice
  bool under(
      absl::string_view message) const;  // whether its field is in this message of GenerateRequest
};

// In the order of the help.
absl::Span<const RequestOption> RequestOptions();
// CHECKs that there is one.
const RequestOption& OptionAt(absl::string_view path);

// Of type kChoice: one of its choices. Ids are added to those that are there.
using OptionValue = std::variant<bool, uint64_t, double, std::string, std::vector<uint32_t>>;
void SetOption(const RequestOption& option, const OptionValue& value, v1::GenerateRequest& request);

// Nullopt: it is not there, or is not a number.
std::optional<double> NumberIn(const RequestOption& option, const v1::GenerateRequest& request);

// INVALID_ARGUMENT: the first option of `message` that is out of its range, or of no known value:
// "sampling.top_p is 2; it must be above 0, to 1". `message` is a GenerateRequest, or its part
// `part`.
absl::Status CheckRanges(const google::protobuf::Message& message, absl::string_view part = "");
// The same of one value: "is 11; it must be 0 to 10". Of a text and of ids `value` is how many
// bytes or ids it has. Empty: it is within the range.
std::string RangeProblem(const RequestOption& option, double value);
// CheckRanges, and what cannot go together whatever model and services there are.
absl::Status CheckOptions(const v1::GenerateRequest& request);

// `message` in a client's words: options and values of enums by the names that it knows. `name`: an
// option's.
std::string InWordsOf(absl::string_view message,
                      absl::FunctionRef<std::string(const RequestOption& option)> name);

}  // namespace tandem::messages
