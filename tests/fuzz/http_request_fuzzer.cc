// Any bytes on a connection of HTTP: requests within the limits, whose bodies are requests for a
// text or are refused by name. The first byte says how the rest is cut.
#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "common/http/request_reader.h"
#include "orchestrator/openai/completion_request.h"
#include "orchestrator/openai/error.h"
#include "tests/fuzz/fuzz.h"

namespace tandem::fuzz {
namespace {

constexpr http::ReaderLimits kLimits = {
    .max_head_bytes = 1024, .max_headers = 16, .max_body_bytes = 4096};

void CheckBody(const std::string& body) {
  const absl::StatusOr<base::JsonValue> json = orchestrator::ParseBody(body);
  if (!json.ok()) return;
  const absl::StatusOr<orchestrator::CompletionRequest> request =
      orchestrator::ParseCompletion(*json);
  if (request.ok()) {
    TANDEM_CHECK(request->wire.has_text() || request->wire.has_ids());
    TANDEM_CHECK(request->wire.max_tokens() > 0 && request->wire.samples() <= 16);
    return;
  }
  const orchestrator::ApiError error = orchestrator::ToApiError(request.status());
  TANDEM_CHECK(error.code == 400 && !error.param.empty()) << error.message;
}

// Returns how many bytes were not taken.
size_t Read(absl::string_view bytes, size_t step) {
  std::string waiting;
  http::RequestReader reader(kLimits);
  for (size_t at = 0; at < bytes.size(); at += step) {
    const absl::string_view part = bytes.substr(at, step);
    absl::StrAppend(&waiting, part);
    waiting.erase(0, reader.Read(waiting));
    if (reader.state() == http::RequestReader::State::kHeadRead) {
      reader.Accept();
      waiting.erase(0, reader.Read(waiting));
    }
    TANDEM_CHECK(reader.request().body.size() <= kLimits.max_body_bytes);
    TANDEM_CHECK(reader.request().headers.size() <= kLimits.max_headers);
  }
  switch (reader.state()) {
    case http::RequestReader::State::kComplete:
      CheckBody(reader.request().body);
      break;
    case http::RequestReader::State::kRefused:
      TANDEM_CHECK(reader.refused_code() >= 400 && !reader.refused_reason().empty());
      return 0;
    default:
      TANDEM_CHECK(waiting.size() <= kLimits.max_head_bytes) << "it waits for ever";
      break;
  }
  return waiting.size();
}

}  // namespace

std::vector<std::string> Seeds() {
  const std::string body = R"({"prompt": "a", "n": 2, "stop": ["b"], "tandem": {"rule": "block"}})";
  return {absl::StrCat("\x01POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: ",
                       body.size(), "\r\n\r\n", body),
          absl::StrCat("\x05POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
                       absl::Hex(body.size()), "\r\n", body, "\r\n0\r\nA: b\r\n\r\n"),
          "\x10GET http://x/health HTTP/1.0\r\nConnection: close\r\n\r\n"};
}

}  // namespace tandem::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t step = std::max<size_t>(data[0], 1);
  TANDEM_CHECK(tandem::fuzz::Read(bytes, step) ==
               tandem::fuzz::Read(bytes, std::max<size_t>(bytes.size(), 1)))
      << "it is read in another way when it is cut";
  return 0;
}
