#include "orchestrator/openai/page/page.h"

#include "common/base/check.h"

namespace tandem::orchestrator {
namespace {

struct File {
  absl::string_view path;
  absl::string_view type;
  const absl::string_view& text;
};
constexpr File kFiles[] = {{"/", "text/html; charset=utf-8", kChatHtml},
                           {"/chat.js", "text/javascript; charset=utf-8", kChatJs},
                           {"/chat.css", "text/css; charset=utf-8", kChatCss}};

constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const File* FindFile(absl::string_view path) {
  for (const File& file : kFiles) {
    if (path == file.path) return &file;
  }
  return nullptr;
}

}  // namespace

bool IsPage(absl::string_view path) { return FindFile(path) != nullptr; }

http::Response PageResponse(absl::string_view path) {
  const File* const file = FindFile(path);
  TANDEM_CHECK(file != nullptr) << path;
  http::Response response;
  response.type = std::string(file->type);
  response.body = std::string(file->text);
  response.headers = {{"Content-Security-Policy", kPolicy},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      // Another version's files must not be mixed with these.
                      {"Cache-Control", "no-store"}};
  return response;
}

}  // namespace tandem::orchestrator
