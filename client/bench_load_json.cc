// The forms of bench_load_report.h that programs read.
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/bench_load_report.h"
#include "nlohmann/json.hpp"

namespace tandem::client {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const Spread& spread) {
  return {{"min", spread.least}, {"median", spread.median}, {"max", spread.most}};
}

Json ToJson(const Percentiles& values) {
  if (values.count == 0) return nullptr;
  return {{"count", values.count}, {"p50", values.p50}, {"p95", values.p95}, {"p99", values.p99}};
}

Json ToJson(const std::optional<double>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

Json ToJson(const std::map<std::string, Failures>& failures) {
  Json json = Json::object();
  for (const auto& [name, of] : failures) {
    json[name] = {{"count", of.count}, {"first_message", of.first_message}};
  }
  return json;
}

Json ToJson(const LoadSummary& s) {
  return {
      {"requests", s.requests},
      {"tokens_per_second", ToJson(s.tokens_per_second)},
      {"ratio_to_off", s.ratio.has_value() ? ToJson(*s.ratio) : Json(nullptr)},
      {"first_token_ms", ToJson(s.first_token_ms)},
      {"per_token_ms", ToJson(s.per_token_ms)},
      {"pass", {{"sequences", ToJson(s.pass_sequences)}, {"rows", ToJson(s.pass_rows)}}},
      {"round_pass", {{"sequences", ToJson(s.round_sequences)}, {"rows", ToJson(s.round_rows)}}},
      {"device_share", ToJson(s.device_share)},
      {"rounds", s.rounds},
      {"tokens_per_round", s.tokens_per_round},
      {"accepted_per_round", s.accepted_per_round},
      {"round_ms",
       {{"draft", s.draft_ms},
        {"verify", s.verify_ms},
        {"queue", s.queue_ms},
        {"target", s.target_ms},
        {"slot", s.slot_ms},
        {"own", s.own_us / 1000}}},
      {"admission_ms", s.admission_ms},
      {"failures", ToJson(s.failures)}};
}

// A message of a service may hold anything.
std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string LoadTablesJson(const std::vector<LoadTable>& tables) {
  Json json = Json::array();
  for (const LoadTable& table : tables) {
    const ModeRuns* off = nullptr;
    for (const ModeRuns& runs : table.modes) {
      if (runs.mode.off()) off = &runs;
    }
    Json modes = Json::object();
    for (const ModeRuns& runs : table.modes) {
      modes[runs.mode.Name()] = ToJson(Summarize(runs, off));
    }
    json.push_back({{"concurrency", table.concurrency}, {"modes", modes}});
  }
  return Line({{"load", json}});
}

std::string IdleJson(const std::vector<IdlePair>& pairs, double silence_s) {
  Json list = Json::array();
  std::vector<double> silent, busy, more;
  for (const IdlePair& pair : pairs) {
    silent.push_back(pair.after_silence);
    busy.push_back(pair.busy);
    more.push_back(pair.after_silence - pair.busy);
    list.push_back({{"after_silence_ms", pair.after_silence}, {"busy_ms", pair.busy}});
  }
  return Line({{"idle",
                {{"silence_s", silence_s},
                 {"after_silence_ms", ToJson(SpreadOf(std::move(silent)))},
                 {"busy_ms", ToJson(SpreadOf(std::move(busy)))},
                 {"difference_ms", ToJson(SpreadOf(std::move(more)))},
                 {"pairs", list}}}});
}

}  // namespace tandem::client
