#include "target_service/options.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/speculation/candidate_tree.h"

namespace tandem::target_service {

absl::Status Options::Validate() const {
  std::vector<std::string> problems;
  auto check = [&problems](const char* name, uint32_t value, uint32_t min, uint32_t max) {
    if (value >= min && value <= max) return;
    problems.push_back(absl::StrCat(name, " is ", value, ", outside ", min, " to ", max));
  };
  check("max_sequences", max_sequences, 1, 65536);
  check("max_draft_tokens", max_draft_tokens, 1, 64);
  check("max_nodes", max_nodes, 0, speculation::kMaxTreeNodes);
  check("prefill_rows", prefill_rows, 1, 65536);
  if (pass_rows > 65536)
    problems.push_back(absl::StrCat("pass_rows is ", pass_rows, ", above 65536"));
  auto check_time = [&problems](const char* name, absl::Duration value, absl::Duration max) {
    if (value >= absl::ZeroDuration() && value <= max) return;
    problems.push_back(absl::StrCat(name, " is ", absl::FormatDuration(value), ", outside 0 to ",
                                    absl::FormatDuration(max)));
  };
  check_time("measure", measure, absl::Minutes(1));
  check_time("linger", linger, absl::Hours(1));
  if (retry_after <= absl::ZeroDuration()) {
    problems.push_back(
        absl::StrCat("retry_after is ", absl::FormatDuration(retry_after), ", not above 0"));
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(problems, "; "));
}

}  // namespace tandem::target_service
