#include "draft_service/serving/options.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem::draft_service {

absl::Status Options::Validate() const {
  std::vector<std::string> problems;
  std::set<std::string> names;
  for (const DrafterFactory& drafter : drafters) {
    if (!names.insert(drafter.name).second) {
      problems.push_back(absl::StrCat("there are two drafters named \"", drafter.name, "\""));
    }
  }
  if (drafters.empty()) problems.push_back("there is no drafter");
  if (!default_drafter.empty() && !names.contains(default_drafter)) {
    problems.push_back(absl::StrCat("default drafter \"", default_drafter,
                                    "\" is none of: ", absl::StrJoin(names, ", ")));
  }
  auto check = [&problems](const char* name, int64_t value, int64_t min, int64_t max) {
    if (value >= min && value <= max) return;
    problems.push_back(absl::StrCat(name, " is ", value, ", outside ", min, " to ", max));
  };
  if (vocabulary_size == 0)
    problems.push_back("vocabulary_size is 0: at least 1 token is required");
  check("max_draft_tokens", max_draft_tokens, 1, 64);
  check("max_nodes", max_nodes, 0, speculation::kMaxTreeNodes);
  check("max_sequences", max_sequences, 1, 65536);
  check("pass_rows", pass_rows, 0, 65536);
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(problems, "; "));
}

}  // namespace tandem::draft_service
