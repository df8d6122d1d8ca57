// Which files of a repository Tandem, or a Python program with the same cache, reads of a model.
//
// Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/hub/repository_files.h"

namespace tandem::client {

// Of all files of a repository those that are small and belong to the model: configurations, the
// tokenizer's files, chat templates, and the index of the weights unless they are in one file. Not
// those of other folders than additional_chat_templates, pictures, other frameworks.
// FAILED_PRECONDITION: the repository is not a model that Tandem can load; says what it has in
// place of what, and of GGUF files which there are and how one is named.
absl::StatusOr<std::vector<std::string>> WantedFiles(absl::Span<const std::string> files,
                                                     hub::Need need);

// The GGUF file that a name says, and all its parts. NOT_FOUND: the repository lacks it, or a part;
// names those that it has. INVALID_ARGUMENT: it is not the first part.
absl::StatusOr<std::vector<std::string>> WantedGguf(absl::Span<const std::string> files,
                                                    const std::string& file);

// The files of the weights. `index` is the text of hub::kWeightIndex where WantedFiles names that,
// and else not looked at. FAILED_PRECONDITION: the index names a file that is not there.
absl::StatusOr<std::vector<std::string>> WantedWeights(absl::Span<const std::string> files,
                                                       absl::string_view index);

}  // namespace tandem::client
