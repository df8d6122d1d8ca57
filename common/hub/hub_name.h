// The name of a model on the Hugging Face hub: OWNER/NAME, and where they are wanted a revision and
// the one file of the repository that is the model.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem::hub {

struct HubName {
  std::string repository;         // "Qwen/Qwen3-0.6B"
  std::string revision = "main";  // a branch, a tag or a commit; "refs/pr/7" is one, too

  std::string
      file;  // a path in the repository that ends with .gguf; empty: the repository is one model

  // "Qwen/Qwen3-0.6B", with "@REVISION" where it is not main, and ":FILE.gguf" where there is a
  // file.
  std::string Text() const;
  // The same model in another revision.
  HubName At(std::string other_revision) const;

  bool operator==(const HubName&) const = default;
};

// Reads OWNER/NAME[@REVISION][:FILE.gguf]. INVALID_ARGUMENT says what is wrong and what would be
// right. The parts become parts of paths, so ".." and the like are refused here.
absl::StatusOr<HubName> ParseHubName(absl::string_view text);

// Whether a text is the whole hash of a commit: 40 hexadecimal digits in lower case. Such a
// revision never changes.
bool IsCommit(absl::string_view text);

}  // namespace tandem::hub
