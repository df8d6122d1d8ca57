#include "common/telemetry/tracing_settings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/address.h"
#include "common/base/status_macros.h"

namespace tandem::telemetry {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

struct Variable {
  std::string name;
  std::string value;  // without white space around it; empty: not set

  bool set() const { return !value.empty(); }
  absl::Status Bad(absl::string_view right) const {
    return absl::InvalidArgumentError(absl::StrCat(name, ": '", value, "': ", right));
  }
};

Variable Read(const Environment& environment, std::string name) {
  const char* value = environment(name.c_str());
  return {std::move(name), std::string(absl::StripAsciiWhitespace(value ? value : ""))};
}

Variable ReadOtlp(const Environment& environment, absl::string_view what) {
  Variable traces = Read(environment, absl::StrCat("OTEL_EXPORTER_OTLP_TRACES_", what));
  if (traces.set()) return traces;
  return Read(environment, absl::StrCat("OTEL_EXPORTER_OTLP_", what));
}

absl::StatusOr<bool> Bool(const Variable& variable, bool otherwise) {
  if (!variable.set()) return otherwise;
  const std::string value = absl::AsciiStrToLower(variable.value);
  if (value == "true") return true;
  if (value == "false") return false;
  return variable.Bad("true or false");
}

absl::StatusOr<int64_t> Whole(const Variable& variable, int64_t otherwise, absl::string_view of) {
  constexpr int64_t kMax = 86'400'000;  // a day, and a queue that no memory holds
  if (!variable.set()) return otherwise;
  int64_t value = 0;
  if (!absl::SimpleAtoi(variable.value, &value) || value < 1 || value > kMax) {
    return variable.Bad(absl::StrCat("a whole number of ", of, ", 1 to ", kMax));
  }
  return value;
}

// "%20" is a space.
std::optional<std::string> Decode(absl::string_view text) {
  std::string decoded;
  while (!text.empty()) {
    if (text[0] != '%') {
      decoded.push_back(text[0]);
      text.remove_prefix(1);
      continue;
    }
    if (text.size() < 3 || !absl::ascii_isxdigit(text[1]) || !absl::ascii_isxdigit(text[2])) {
      return std::nullopt;
    }
    decoded += absl::HexStringToBytes(text.substr(1, 2));
    text.remove_prefix(3);
  }
  return decoded;
}

// "a=1,b=2", both sides decoded.
absl::StatusOr<Pairs> PairsOf(const Variable& variable) {
  Pairs pairs;
  for (absl::string_view part : absl::StrSplit(variable.value, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> sides =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    const auto name = Decode(absl::StripAsciiWhitespace(sides.first));
    const auto value = Decode(absl::StripAsciiWhitespace(sides.second));
    if (!absl::StrContains(part, '=') || !name.has_value() || name->empty() || !value.has_value()) {
      return variable.Bad("name=value, with a comma between two, and %2C for a comma within one");
    }
    pairs.emplace_back(*name, *value);
  }
  return pairs;
}

// A gRPC call with any other header fails each time, so it is said here.
absl::StatusOr<Pairs> HeadersOf(const Variable& variable) {
  TANDEM_ASSIGN_OR_RETURN(Pairs headers, PairsOf(variable));
  for (auto& [name, value] : headers) {
    name = absl::AsciiStrToLower(name);
    const bool good_name = std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
    });
    const bool good_value =
        std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~'; });
    if (!good_name || !good_value) {
      return variable.Bad(
          "a header's name has letters, digits, '-', '_' and '.' alone, its value ASCII");
    }
  }
  return headers;
}

absl::Status ReadEndpoint(const Environment& environment, TracingSettings& settings) {
  const Variable endpoint = ReadOtlp(environment, "ENDPOINT");
  absl::string_view rest = "http://localhost:4317";
  if (endpoint.set()) rest = endpoint.value;
  const Variable insecure = ReadOtlp(environment, "INSECURE");
  TANDEM_ASSIGN_OR_RETURN(const bool plain, Bool(insecure, false));
  settings.tls = !plain;
  if (absl::ConsumePrefix(&rest, "http://")) {
    settings.tls = false;
  } else if (absl::ConsumePrefix(&rest, "https://")) {
    settings.tls = true;
  }
  absl::ConsumeSuffix(&rest, "/");
  const auto address = base::ParseAddress(endpoint.name, rest);
  if (!address.ok()) return endpoint.Bad("http://HOST:PORT, https://HOST:PORT or HOST:PORT");
  settings.endpoint = address->ToString();

  const Variable protocol = ReadOtlp(environment, "PROTOCOL");
  if (protocol.set() && protocol.value != "grpc") {
    return protocol.Bad("grpc (a collector takes it at port 4317): no other is built in");
  }
  const Variable certificate = ReadOtlp(environment, "CERTIFICATE");
  if (certificate.set() && access(certificate.value.c_str(), R_OK) != 0) {
    return certificate.Bad("the path of a file that can be read");
  }
  settings.certificate = certificate.value;
  TANDEM_ASSIGN_OR_RETURN(settings.headers, HeadersOf(ReadOtlp(environment, "HEADERS")));
  return absl::OkStatus();
}

absl::Status ReadSampler(const Environment& environment, TracingSettings& settings) {
  const Variable sampler = Read(environment, "OTEL_TRACES_SAMPLER");
  absl::string_view rest = "parentbased_always_on";
  if (sampler.set()) rest = sampler.value;
  settings.sampler_text = std::string(rest);
  settings.parent_based = absl::ConsumePrefix(&rest, "parentbased_");
  if (rest == "always_on") {
    settings.sampler = TracingSettings::Sampler::kAlwaysOn;
  } else if (rest == "always_off") {
    settings.sampler = TracingSettings::Sampler::kAlwaysOff;
  } else if (rest == "traceidratio") {
    settings.sampler = TracingSettings::Sampler::kRatio;
    const Variable argument = Read(environment, "OTEL_TRACES_SAMPLER_ARG");
    if (argument.set() && (!absl::SimpleAtod(argument.value, &settings.ratio) ||
                           !(settings.ratio >= 0 && settings.ratio <= 1))) {
      return argument.Bad("a ratio, 0 to 1");
    }
    absl::StrAppend(&settings.sampler_text, " ", settings.ratio);
  } else {
    return sampler.Bad("always_on, always_off or traceidratio, each also after 'parentbased_'");
  }
  return absl::OkStatus();
}

absl::Status ReadBatches(const Environment& environment, TracingSettings& settings) {
  const auto read = [&environment](absl::string_view what, int64_t otherwise,
                                   absl::string_view of) {
    return Whole(Read(environment, absl::StrCat("OTEL_BSP_", what)), otherwise, of);
  };
  TANDEM_ASSIGN_OR_RETURN(const int64_t delay, read("SCHEDULE_DELAY", 5000, "milliseconds"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t timeout, read("EXPORT_TIMEOUT", 30000, "milliseconds"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t queue, read("MAX_QUEUE_SIZE", 2048, "spans"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t batch, read("MAX_EXPORT_BATCH_SIZE", 512, "spans"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t call,
                          Whole(ReadOtlp(environment, "TIMEOUT"), 10000, "milliseconds"));
  settings.delay = absl::Milliseconds(delay);
  settings.timeout = absl::Milliseconds(std::min(timeout, call));
  settings.queue_size = static_cast<size_t>(queue);
  settings.batch_size = static_cast<size_t>(std::min(batch, queue));
  return absl::OkStatus();
}

absl::Status ReadResource(const Environment& environment, TracingSettings& settings) {
  TANDEM_ASSIGN_OR_RETURN(const Pairs attributes,
                          PairsOf(Read(environment, "OTEL_RESOURCE_ATTRIBUTES")));
  for (const auto& [name, value] : attributes) settings.resource[name] = value;
  const Variable service = Read(environment, "OTEL_SERVICE_NAME");
  if (service.set()) settings.resource["service.name"] = service.value;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<TracingSettings>> ReadTracingSettings(const Environment& environment) {
  TANDEM_ASSIGN_OR_RETURN(const bool disabled, Bool(Read(environment, "OTEL_SDK_DISABLED"), false));
  if (disabled) return std::nullopt;
  const Variable exporter = Read(environment, "OTEL_TRACES_EXPORTER");
  if (exporter.set() && exporter.value != "otlp" && exporter.value != "none") {
    return exporter.Bad("otlp or none");
  }
  const bool on =
      exporter.set() ? exporter.value == "otlp" : ReadOtlp(environment, "ENDPOINT").set();
  if (!on) return std::nullopt;
  TracingSettings settings;
  TANDEM_RETURN_IF_ERROR(ReadEndpoint(environment, settings));
  TANDEM_RETURN_IF_ERROR(ReadSampler(environment, settings));
  TANDEM_RETURN_IF_ERROR(ReadBatches(environment, settings));
  TANDEM_RETURN_IF_ERROR(ReadResource(environment, settings));
  return settings;
}

}  // namespace tandem::telemetry
