#include "client/bench/records.h"

#include "absl/strings/str_cat.h"

namespace tandem::client {

std::string BenchMode::Name() const {
  if (!draft_tokens.has_value()) return "auto";
  return off() ? "off" : absl::StrCat("K=", *draft_tokens);
}

void BenchMode::Apply(v1::GenerateRequest& request) const {
  if (draft_tokens.has_value()) {
    v1::SpeculationOptions& speculation = *request.mutable_speculation();
    speculation.set_fixed(*draft_tokens);
    speculation.clear_length_policy();  // how the mode `auto` chooses
    // There is no draft, so nothing may be said of one.
    if (off()) {
      speculation.clear_draft_temperature();
      speculation.clear_draft_nodes();
      speculation.clear_draft_min_confidence();
      speculation.clear_prepare();
    }
  } else {
    request.mutable_speculation()->set_auto_(true);
  }
}

std::optional<DeviceUse> DeviceUseOf(const v1::DescribeReply& reply) {
  DeviceUse sum;
  for (const v1::Peer& peer : reply.peers()) {
    if (peer.role() != v1::Peer::ROLE_TARGET || !peer.has_load()) continue;
    sum.passes += peer.load().passes();
    sum.pass_rows += peer.load().pass_rows();
    sum.pass_sequences += peer.load().pass_sequences();
    sum.busy_us += peer.load().busy_us();
    sum.idle_us += peer.load().idle_us();
  }
  if (sum.passes == 0 && sum.busy_us == 0) return std::nullopt;
  return sum;
}

std::optional<DeviceUse> Difference(const std::optional<DeviceUse>& before,
                                    const std::optional<DeviceUse>& after) {
  if (!before.has_value() || !after.has_value()) return std::nullopt;
  if (after->passes < before->passes || after->pass_rows < before->pass_rows ||
      after->pass_sequences < before->pass_sequences || after->busy_us < before->busy_us ||
      after->idle_us < before->idle_us) {
    return std::nullopt;
  }
  return DeviceUse{after->passes - before->passes, after->pass_rows - before->pass_rows,
                   after->pass_sequences - before->pass_sequences, after->busy_us - before->busy_us,
                   after->idle_us - before->idle_us};
}

}  // namespace tandem::client
