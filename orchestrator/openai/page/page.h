// The chat page, which the HTTP port serves under "/": files of this folder,
// embedded into the program.
//
// Thread safety: pure functions and constants.
#pragma once

#include "absl/strings/string_view.h"
#include "common/http/reply.h"

namespace tandem::orchestrator {

// The contents of the files.
extern const absl::string_view kChatHtml;
extern const absl::string_view kChatJs;
extern const absl::string_view kChatCss;

// Whether `path` is a file of the page.
bool IsPage(absl::string_view path);

// The file, for a path that is one. Its headers let the page load from this port and talk to it,
// and nothing else: no other host, no frame around it, no inline script.
http::Response PageResponse(absl::string_view path);

}  // namespace tandem::orchestrator
