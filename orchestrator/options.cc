#include "orchestrator/options.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/address.h"
#include "common/hub/snapshot_directory.h"

namespace tandem::orchestrator {
namespace {

constexpr size_t kMaxClientIdBytes = 96;  // a draft stream adds its number
constexpr size_t kMaxModelNameBytes = 256;

absl::Status AllProblems(const std::vector<std::string>& problems) {
  return problems.empty() ? absl::OkStatus()
                          : absl::InvalidArgumentError(absl::StrJoin(problems, "; "));
}

void CheckTime(absl::string_view name, absl::Duration value, absl::Duration min, absl::Duration max,
               std::vector<std::string>& problems) {
  if (value >= min && value <= max) return;
  problems.push_back(absl::StrCat(name, " is ", absl::FormatDuration(value), "; it must be ",
                                  absl::FormatDuration(min), " to ", absl::FormatDuration(max)));
}

void CheckNumber(absl::string_view name, double value, double min, double max,
                 std::vector<std::string>& problems) {
  if (value >= min && value <= max) return;
  problems.push_back(
      absl::StrFormat("%s is %.10g; it must be %.10g to %.10g", name, value, min, max));
}

// Parsed together, so that one that is there twice is found.
void CheckAddresses(absl::string_view name, const std::vector<std::string>& addresses,
                    std::vector<std::string>& problems) {
  auto list = base::ParseAddressList(name, absl::StrJoin(addresses, ","));
  if (!list.ok()) problems.emplace_back(list.status().message());
}

}  // namespace

std::vector<std::string> Options::drafters() const {
  return absl::StrSplit(drafter, ',', absl::SkipEmpty());
}

absl::Status LoopOptions::Validate() const {
  std::vector<std::string> problems;
  const absl::Duration millisecond = absl::Milliseconds(1);
  CheckTime("draft_wait", draft_wait, millisecond, absl::Minutes(1), problems);
  CheckTime("draft_wait_floor", draft_wait_floor, millisecond, absl::Minutes(1), problems);
  CheckTime("draft_silence", draft_silence, millisecond, absl::Hours(1), problems);
  CheckTime("backoff_min", backoff_min, millisecond, absl::Minutes(1), problems);
  CheckTime("backoff_max", backoff_max, backoff_min, absl::Minutes(10), problems);
  CheckTime("watchdog_min", watchdog_min, millisecond, absl::Hours(1), problems);
  CheckNumber("watchdog_factor", watchdog_factor, 1, 1000, problems);
  CheckTime("target_patience", target_patience, millisecond, absl::Hours(24), problems);
  CheckTime("slot_patience", slot_patience, millisecond, absl::Hours(24), problems);
  CheckNumber("max_undelivered_tokens", max_undelivered_tokens, 1, 1 << 20, problems);
  CheckTime("close_after", close_after, millisecond, absl::Hours(1), problems);
  CheckTime("abort_after", abort_after, millisecond, absl::Hours(24), problems);
  CheckNumber("max_prefix_tokens", max_prefix_tokens, 1, 200'000, problems);
  return AllProblems(problems);
}

std::string Options::ServedModelName() const {
  if (!served_model_name.empty()) return served_model_name;
  const std::string name = hub::ModelName(tokenizer_directory);
  return name.empty() ? "tandem" : name;
}

absl::Status Options::Validate() const {
  std::vector<std::string> problems;
  if (target_channels.empty()) CheckAddresses("target", target_addresses, problems);
  if (draft_channels.empty() && !draft_addresses.empty()) {
    CheckAddresses("draft", draft_addresses, problems);
  }
  if (tokenizer == nullptr && tokenizer_directory.empty()) {
    problems.emplace_back("tokenizer is empty; it must be a directory with a tokenizer.json");
  }
  if (client_id.size() > kMaxClientIdBytes) {
    problems.push_back(
        absl::StrCat("--client-id has ", client_id.size(), " bytes; at most ", kMaxClientIdBytes));
  }
  if (served_model_name.size() > kMaxModelNameBytes) {
    problems.push_back(absl::StrCat("--served-model-name has ", served_model_name.size(),
                                    " bytes; at most ", kMaxModelNameBytes));
  }
  CheckNumber("max_active_requests", max_active_requests, 1, 65536, problems);
  CheckNumber("max_waiting_requests", max_waiting_requests, 0, 16384, problems);
  CheckNumber("max_unchecked_mib", max_unchecked_mib, 64, 1 << 20, problems);
  CheckTime("admission_patience", admission_patience, absl::Milliseconds(1), absl::Hours(24),
            problems);
  CheckNumber("max_open_calls", max_open_calls, 0, 1 << 20, problems);
  CheckNumber("max_unread_bytes", static_cast<double>(max_unread_bytes), 1 << 20, kMaxUnreadBytes,
              problems);
  CheckTime("resolve_every", resolve_every, absl::Milliseconds(100), absl::Hours(1), problems);
  CheckTime("ejection_min", ejection_min, absl::Milliseconds(1), absl::Minutes(10), problems);
  CheckTime("ejection_max", ejection_max, ejection_min, absl::Hours(1), problems);
  absl::Status tls_valid = peer_tls.Validate("--peer-tls-");
  if (!tls_valid.ok()) problems.emplace_back(tls_valid.message());
  absl::Status loop_valid = loop.Validate();
  if (!loop_valid.ok()) problems.emplace_back(loop_valid.message());
  return AllProblems(problems);
}

}  // namespace tandem::orchestrator
