#include "common/messages/sampling_options.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/reflection.h>

#include <cstdint>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/messages/request_options.h"

namespace tandem::messages {
namespace {

using Real = double sampling::SamplingParameters::*;
using Whole = uint32_t sampling::SamplingParameters::*;
using Ids = std::vector<uint32_t> sampling::SamplingParameters::*;

}  // namespace

sampling::SamplingParameters FromWire(const v1::SamplingOptions& options,
                                      const sampling::SamplingParameters& defaults) {
  sampling::SamplingParameters parameters = defaults;
  const google::protobuf::Reflection& values = *options.GetReflection();
  for (const RequestOption& option : RequestOptions()) {
    if (option.member.index() == 0) continue;  // kept elsewhere
    const google::protobuf::FieldDescriptor* const field = &option.field();
    if (field->has_presence() && !values.HasField(options, field)) continue;
    if (const auto* real = std::get_if<Real>(&option.member)) {
      parameters.*(*real) = values.GetFloat(options, field);
    } else if (const auto* whole = std::get_if<Whole>(&option.member)) {
      parameters.*(*whole) = values.GetUInt32(options, field);
    } else {
      const auto& ids = values.GetRepeatedFieldRef<uint32_t>(options, field);
      (parameters.*std::get<Ids>(option.member)).assign(ids.begin(), ids.end());
    }
  }
  parameters.bias.clear();
  for (const v1::LogitBias& entry : options.logit_bias()) {
    parameters.bias.push_back({entry.token(), entry.bias()});
  }
  return parameters;
}

v1::SamplingOptions ToWire(const sampling::SamplingParameters& parameters) {
  v1::SamplingOptions wire;
  const google::protobuf::Reflection& values = *wire.GetReflection();
  for (const RequestOption& option : RequestOptions()) {
    if (option.member.index() == 0) continue;
    const google::protobuf::FieldDescriptor* const field = &option.field();
    if (const auto* real = std::get_if<Real>(&option.member)) {
      values.SetFloat(&wire, field, static_cast<float>(parameters.*(*real)));
    } else if (const auto* whole = std::get_if<Whole>(&option.member)) {
      values.SetUInt32(&wire, field, parameters.*(*whole));
    } else if (const auto* ids = std::get_if<Ids>(&option.member)) {
      for (uint32_t id : parameters.*(*ids)) values.AddUInt32(&wire, field, id);
    }
  }
  for (const sampling::TokenBias& entry : parameters.bias) {
    v1::LogitBias& bias = *wire.add_logit_bias();
    bias.set_token(entry.token);
    bias.set_bias(static_cast<float>(entry.bias));
  }
  return wire;
}

sampling::LogprobOptions FromWire(const v1::LogprobOptions& options) {
  return {options.top(), options.processed()};
}

v1::LogprobOptions ToWire(const sampling::LogprobOptions& options) {
  v1::LogprobOptions wire;
  wire.set_top(options.top);
  wire.set_processed(options.processed);
  return wire;
}

v1::Rule ToWire(acceptance::Rule rule) {
  v1::Rule wire = v1::RULE_UNSPECIFIED;
  TANDEM_CHECK(
      v1::Rule_Parse(absl::StrCat("RULE_", absl::AsciiStrToUpper(acceptance::Name(rule))), &wire));
  return wire;
}

std::optional<acceptance::Rule> FromWire(v1::Rule rule) {
  for (acceptance::Rule known : acceptance::kRules) {
    if (ToWire(known) == rule) return known;
  }
  return std::nullopt;
}

}  // namespace tandem::messages
