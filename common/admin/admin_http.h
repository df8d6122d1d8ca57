// GET /metrics, over HTTP/1.1: what the admin port answers to clients that do not speak HTTP/2.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tandem::admin {

inline constexpr size_t kMaxHttpHeadBytes = 8192;  // request line and headers

// The whole answer to what a connection has received so far; the connection is closed after it.
// Nothing while the head of the request is not complete. `metrics` (may be empty: there are none)
// is called only for GET and HEAD of /metrics. Pure except for that call.
std::optional<std::string> HttpAnswer(absl::string_view received,
                                      const std::function<std::string()>& metrics);

}  // namespace tandem::admin
