// A status as traces, metrics and logs have it: "OK", "NEED_PREFIX".
#pragma once

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tandem/internal/v1/tokens.pb.h"

namespace tandem::transport {

// Lives for ever.
inline absl::string_view StatusName(internal::v1::Status status) {
  return absl::StripPrefix(internal::v1::Status_Name(status), "STATUS_");
}

}  // namespace tandem::transport
