// What shells read to complete the words of `tandem` and the services. Embedded from the files
// beside this one.
#pragma once

#include "absl/strings/string_view.h"

namespace tandem::client {

extern const absl::string_view kBashCompletion;
extern const absl::string_view kZshCompletion;
extern const absl::string_view kFishCompletion;

}  // namespace tandem::client
