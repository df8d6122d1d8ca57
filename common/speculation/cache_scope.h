// The scope within which sequences that begin alike share what a target computed of their beginning.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/speculation/sequence_settings.h"

namespace tandem::speculation {

// INVALID_ARGUMENT: it is too long. `name`: what it is called where it was given.
inline absl::Status CheckCacheScope(absl::string_view name, absl::string_view scope) {
  if (scope.size() <= kMaxCacheScope) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " has ", scope.size(), " bytes; at most ", kMaxCacheScope));
}

}  // namespace tandem::speculation
