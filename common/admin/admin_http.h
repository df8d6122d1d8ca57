// GET /metrics, over HTTP/1.1: what the admin port answers to whom speaks no HTTP/2.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tandem::admin {

inline constexpr size_t kMaxHttpHeadBytes = 8192;  // request line and headers

// The whole answer to what a connection received so far, after which it is closed; nothing while the head
// of the request is not complete. `metrics` (may be empty: there are none) is called for GET and HEAD of
// /metrics alone. Pure, but for that.
std::optional<std::string> HttpAnswer(absl::string_view received,
                                      const std::function<std::string()>& metrics);

}  // namespace tandem::admin
