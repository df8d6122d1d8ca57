#include "common/hub/hub_name.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tandem::hub {
namespace {

constexpr size_t kMaxRepository = 96;  // the hub's own limits
constexpr size_t kMaxRevision = 255;
constexpr size_t kMaxFile = 255;

absl::Status Bad(absl::string_view text, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not a name of the hub: ", what,
                   "; a name is OWNER/NAME, OWNER/NAME@REVISION or either with :FILE.gguf, as in "
                   "Qwen/Qwen3-0.6B@main"));
}

bool IsWord(absl::string_view text, absl::string_view also) {
  return std::all_of(text.begin(), text.end(), [also](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains(also, c);
  });
}

// Of an owner or a name. Empty: it is good.
absl::string_view ProblemOf(absl::string_view part) {
  if (part.empty()) return "owner or name is empty";
  if (!IsWord(part, "-_.")) return "owner and name may have only letters, digits, '-', '_' and '.'";
  if (absl::StrContains("-.", part.front()) || absl::StrContains("-.", part.back())) {
    return "owner and name may not begin or end with '-' or '.'";
  }
  // The cache's folders separate owner and name by "--".
  if (absl::StrContains(part, "--") || absl::StrContains(part, "..")) {
    return "owner and name may not have '--' or '..'";
  }
  return "";
}

bool IsRevision(absl::string_view text) {
  if (text.empty() || text.size() > kMaxRevision || !IsWord(text, "-_./+")) return false;
  for (absl::string_view part : absl::StrSplit(text, '/')) {
    if (part.empty() || part.front() == '.' || absl::StrContains(part, "..")) return false;
  }
  return true;
}

// It becomes a path below the cache.
bool IsFile(absl::string_view text) {
  if (text.size() > kMaxFile || !absl::EndsWith(text, ".gguf")) return false;
  for (absl::string_view part : absl::StrSplit(text, '/')) {
    if (part.empty() || part.front() == '.') return false;
  }
  return std::none_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_iscntrl(static_cast<unsigned char>(c)) || c == '\\' || c == ':';
  });
}

}  // namespace

std::string HubName::Text() const {
  return absl::StrCat(repository, revision == "main" ? "" : "@", revision == "main" ? "" : revision,
                      file.empty() ? "" : ":", file);
}

HubName HubName::At(std::string other_revision) const {
  HubName other = *this;
  other.revision = std::move(other_revision);
  return other;
}

absl::StatusOr<HubName> ParseHubName(absl::string_view text) {
  if (absl::StrContains(text, "://")) return Bad(text, "it is an address");
  HubName name;
  absl::string_view repository = text;
  if (const size_t colon = text.find(':'); colon != absl::string_view::npos) {
    name.file = std::string(text.substr(colon + 1));
    repository = text.substr(0, colon);
    if (!IsFile(name.file)) {
      return Bad(text, "after ':' comes the path of a .gguf file in the repository");
    }
  }
  if (const size_t at = repository.find('@'); at != absl::string_view::npos) {
    name.revision = std::string(repository.substr(at + 1));
    repository = repository.substr(0, at);
    if (!IsRevision(name.revision)) {
      return Bad(text, "a revision is a branch, a tag or a commit, without blanks or '..'");
    }
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(repository, '/');
  if (parts.size() != 2)
    return Bad(text, parts.size() < 2 ? "it has no owner" : "it has more than one '/'");
  for (absl::string_view part : parts) {
    if (const absl::string_view problem = ProblemOf(part); !problem.empty()) {
      return Bad(text, problem);
    }
  }
  if (repository.size() > kMaxRepository) return Bad(text, "it is longer than 96 characters");
  if (absl::EndsWith(repository, ".git")) return Bad(text, "it ends with .git");
  name.repository = std::string(repository);
  return name;
}

bool IsCommit(absl::string_view text) {
  return text.size() == 40 && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
         });
}

}  // namespace tandem::hub
