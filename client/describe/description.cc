#include "client/describe/description.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/common/cost_curve.h"
#include "client/common/outcome.h"
#include "common/base/check.h"
#include "common/base/json.h"
#include "common/messages/request_options.h"

namespace tandem::client {
namespace {

constexpr int kDescriptionVersion = 1;

constexpr std::array kHead = {"service",     "address",     "state",  "sequences",     "free slots",
                              "free tokens", "queued rows", "passes", "rows per pass", "busy"};
using Row = std::array<std::string, kHead.size()>;

std::string RoleName(v1::Peer::Role role) {
  return role == v1::Peer::ROLE_TARGET ? "target" : "draft";
}

std::string State(const v1::Peer& peer) {
  if (peer.leaving()) return "leaving";
  if (peer.ejected()) return "ejected";
  return peer.ready() ? "ready" : "not ready";
}

Row PeerRow(const v1::Peer& peer) {
  Row row = {RoleName(peer.role()), peer.address(), State(peer), absl::StrCat(peer.sequences())};
  if (!peer.has_load()) return row;
  const v1::Load& load = peer.load();
  row[4] = absl::StrCat(load.free_slots());
  if (load.has_free_tokens()) row[5] = absl::StrCat(load.free_tokens());
  row[6] = absl::StrCat(load.queued_rows());
  row[7] = absl::StrCat(load.passes());
  if (load.passes() > 0) {
    row[8] = absl::StrFormat("%.1f", static_cast<double>(load.pass_rows()) / load.passes());
  }
  const uint64_t measured = load.busy_us() + load.idle_us();
  if (measured > 0) {
    row[9] = absl::StrFormat("%.0f %%", 100.0 * static_cast<double>(load.busy_us()) / measured);
  }
  return row;
}

// Columns as wide as they need to be, two blanks apart; those that no row fills are left out.
std::string Table(const std::vector<Row>& rows) {
  std::string text;
  std::array<size_t, kHead.size()> widths = {};
  for (size_t column = 0; column < kHead.size(); ++column) {
    for (const Row& row : rows) widths[column] = std::max(widths[column], row[column].size());
    if (widths[column] > 0)
      widths[column] = std::max(widths[column], std::string(kHead[column]).size());
  }
  const auto append = [&](const auto& cells) {
    std::string line;
    for (size_t column = 0; column < kHead.size(); ++column) {
      if (widths[column] == 0) continue;
      absl::StrAppendFormat(&line, "%s%-*s", column == 0 ? "" : "  ",
                            static_cast<int>(widths[column]), std::string(cells[column]));
    }
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&text, line, "\n");
  };
  append(kHead);
  for (const Row& row : rows) append(row);
  return text;
}

void Fact(absl::string_view name, absl::string_view value, std::string& text) {
  if (!value.empty()) absl::StrAppendFormat(&text, "  %-18s %s\n", name, value);
}

void Fact(absl::string_view name, uint64_t value, std::string& text) {
  if (value > 0) Fact(name, absl::StrCat(value), text);
}

std::string Sampling(const v1::SamplingOptions& sampling) {
  v1::GenerateRequest request;
  *request.mutable_sampling() = sampling;
  std::vector<std::string> parts;
  for (const messages::RequestOption& option : messages::RequestOptions()) {
    const std::optional<double> value = messages::NumberIn(option, request);
    if (value.has_value()) parts.push_back(absl::StrCat(option.flag, " ", *value));
  }
  return absl::StrJoin(parts, ", ");
}

void Facts(const v1::Welcome& welcome, std::string& text) {
  Fact("model", welcome.model_id(), text);
  Fact("numerics", welcome.numerics_id(), text);
  Fact("switched off", absl::StrJoin(welcome.switched_off(), ", "), text);
  Fact("tokenizer", welcome.tokenizer_id(), text);
  Fact("vocabulary", welcome.vocabulary_size(), text);
  Fact("end tokens", absl::StrJoin(welcome.eos_token_ids(), ", "), text);
  Fact("context length", welcome.limits().context_length(), text);
  Fact("longest text", welcome.limits().max_length(), text);
  Fact("max sequences", welcome.limits().max_sequences(), text);
  Fact("max draft tokens", welcome.limits().max_draft_tokens(), text);
  std::vector<std::string> rules;
  for (const int rule : welcome.rules()) rules.push_back(RuleName(static_cast<v1::Rule>(rule)));
  Fact("rules", absl::StrJoin(rules, ", "), text);
  Fact("drafters", absl::StrJoin(welcome.drafters(), ", "), text);
  Fact("default sampling", Sampling(welcome.default_sampling()), text);
  Fact("instance", welcome.instance_id(), text);
  Fact("protocol revision", welcome.protocol_revision(), text);
}

// What a pass of the device takes, by its rows; and so what one row costs.
void PassTimes(const v1::Peer& peer, std::string& text) {
  if (CostCurveOf(peer).empty()) return;
  absl::StrAppendFormat(&text, "  %-18s %5s %10s %10s\n", "pass times", "rows", "ms", "ms/row");
  for (const v1::CostPoint& point : CostCurveOf(peer)) {
    const double ms = point.microseconds() / 1000.0;
    absl::StrAppendFormat(&text, "  %-18s %5d %10.3f %10.3f\n", "", point.rows(), ms,
                          ms / std::max(point.rows(), 1u));
  }
}

void Speculation(const v1::SpeculationTotals& totals, std::string& text) {
  if (totals.draft_tokens() == 0) return;
  const double tested = static_cast<double>(totals.accepted_tokens() + totals.rejected_rounds());
  Fact("draft tokens",
       absl::StrFormat("%d, of them accepted %d", totals.draft_tokens(), totals.accepted_tokens()),
       text);
  if (tested > 0) {
    Fact("alpha", absl::StrFormat("%.3f", static_cast<double>(totals.accepted_tokens()) / tested),
         text);
  }
  Fact("draft time",
       absl::StrFormat("%.3f ms per draft token", static_cast<double>(totals.draft_us()) / 1000 /
                                                      static_cast<double>(totals.draft_tokens())),
       text);
}

std::string ProtoJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  TANDEM_CHECK(status.ok()) << status.ToString();
  return json;
}

}  // namespace

std::string DescriptionTable(absl::string_view address, const v1::DescribeReply& services,
                             const v1::ListModelsReply& models) {
  const bool serves = std::any_of(
      services.peers().begin(), services.peers().end(),
      [](const v1::Peer& peer) { return peer.role() == v1::Peer::ROLE_TARGET && peer.ready(); });
  const Row orchestrator = {"orchestrator", std::string(address), serves ? "ready" : "no target"};
  std::vector<Row> rows(1, orchestrator);
  for (const v1::Peer& peer : services.peers()) rows.push_back(PeerRow(peer));
  std::string text = Table(rows);
  absl::StrAppend(&text, "\norchestrator ", address, "\n");
  for (const v1::Model& model : models.models()) {
    Fact("served model", model.id(), text);
    Fact("chat template", model.has_chat_template() ? "yes" : "no", text);
  }
  Facts(services.welcome(), text);
  Speculation(services.speculation(), text);
  for (const v1::Peer& peer : services.peers()) {
    absl::StrAppend(&text, "\n", RoleName(peer.role()), " ", peer.address(), "\n");
    if (peer.name() != peer.address()) Fact("name", peer.name(), text);
    Fact("problem", peer.problem(), text);
    Fact("ejections", peer.ejections(), text);
    Facts(peer.welcome(), text);
    PassTimes(peer, text);
  }
  return text;
}

std::string DescriptionJson(absl::string_view address, const v1::DescribeReply& services,
                            const v1::ListModelsReply& models) {
  std::string list;
  for (const v1::Model& model : models.models()) {
    absl::StrAppend(&list, list.empty() ? "" : ",", ProtoJson(model));
  }
  return absl::StrCat("{\"version\":", kDescriptionVersion,
                      ",\"address\":", base::JsonText(address).text(),
                      ",\"description\":", ProtoJson(services), ",\"models\":[", list, "]}");
}

}  // namespace tandem::client
