#include "client/bench/load_json.h"

#include <utility>

#include "common/base/json.h"

namespace tandem::client {
namespace {

using base::JsonObject;
using base::JsonText;

JsonText ToJson(const Percentiles& values) {
  if (values.count == 0) return nullptr;
  return JsonObject{
      {"count", values.count}, {"p50", values.p50}, {"p95", values.p95}, {"p99", values.p99}};
}

JsonText ToJson(const std::map<std::string, Failures>& failures) {
  JsonObject json;
  for (const auto& [name, of] : failures) {
    json.Set(name, JsonObject{{"count", of.count}, {"first_message", of.first_message}});
  }
  return json;
}

JsonText ToJson(const LoadSummary& s) {
  return JsonObject{
      {"requests", s.requests},
      {"tokens_per_second", ToJson(s.tokens_per_second)},
      {"ratio_to_off", s.ratio.has_value() ? ToJson(*s.ratio) : nullptr},
      {"mean_ratio_to_off", ToJson(s.mean_ratio)},
      {"first_token_ms", ToJson(s.first_token_ms)},
      {"per_token_ms", ToJson(s.per_token_ms)},
      {"pass", JsonObject{{"sequences", s.pass_sequences}, {"rows", s.pass_rows}}},
      {"round_pass", JsonObject{{"sequences", s.round_sequences}, {"rows", s.round_rows}}},
      {"device_share", s.device_share},
      {"rounds", s.rounds},
      {"tokens_per_round", s.tokens_per_round},
      {"accepted_per_round", s.accepted_per_round},
      {"round_ms", JsonObject{{"draft", s.draft_ms},
                              {"verify", s.verify_ms},
                              {"queue", s.queue_ms},
                              {"target", s.target_ms},
                              {"slot", s.slot_ms},
                              {"cpu", s.cpu_us / 1000}}},
      {"admission_ms", s.admission_ms},
      {"failures", ToJson(s.failures)}};
}

}  // namespace

base::JsonText ToJson(const std::optional<MeanFactor>& factor) {
  if (!factor.has_value()) return nullptr;
  return JsonObject{{"mean", factor->mean}, {"low", factor->low}, {"high", factor->high}};
}

base::JsonText ToJson(const Spread& spread) {
  return JsonObject{{"min", spread.min}, {"median", spread.median}, {"max", spread.max}};
}

std::string LoadTablesJson(const std::vector<LoadTable>& tables) {
  std::vector<JsonText> load;
  for (const LoadTable& table : tables) {
    const ModeRuns* off = nullptr;
    for (const ModeRuns& runs : table.modes) {
      if (runs.mode.off()) off = &runs;
    }
    JsonObject modes;
    for (const ModeRuns& runs : table.modes) {
      modes.Set(runs.mode.Name(), ToJson(Summarize(runs, off)));
    }
    load.push_back(JsonObject{{"concurrency", table.concurrency}, {"modes", modes}});
  }
  return JsonObject{{"load", load}}.text();
}

std::string IdleJson(const std::vector<IdlePair>& pairs, double silence_s) {
  std::vector<JsonText> list;
  std::vector<double> silent, busy, more;
  for (const IdlePair& pair : pairs) {
    silent.push_back(pair.after_silence);
    busy.push_back(pair.busy);
    more.push_back(pair.after_silence - pair.busy);
    list.push_back(JsonObject{{"after_silence_ms", pair.after_silence}, {"busy_ms", pair.busy}});
  }
  const JsonObject idle = {{"silence_s", silence_s},
                           {"after_silence_ms", ToJson(SpreadOf(std::move(silent)))},
                           {"busy_ms", ToJson(SpreadOf(std::move(busy)))},
                           {"difference_ms", ToJson(SpreadOf(std::move(more)))},
                           {"pairs", list}};
  return JsonObject{{"idle", idle}}.text();
}

}  // namespace tandem::client
