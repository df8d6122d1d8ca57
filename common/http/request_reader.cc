#include "common/http/request_reader.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"

namespace tandem::http {
namespace {

constexpr size_t kMaxMethodBytes = 32;
constexpr size_t kMaxChunkLineBytes = 256;  // size and extensions
constexpr size_t kMaxChunkDigits = 8;       // of 16 values each: 4 GiB
constexpr size_t kMaxLengthDigits = 18;

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }
bool IsHexDigit(char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); }

// tchar of RFC 9110.
bool IsToken(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           absl::string_view("!#$%&'*+-.^_`|~").find(c) != absl::string_view::npos;
  });
}

// Visible characters, spaces, tabs, and bytes from 0x80 on.
bool IsFieldValue(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= ' ' && byte != 0x7f);
  });
}

bool IsTarget(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

absl::string_view TrimBlanks(absl::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// With each %XX as its byte (RFC 3986, 2.1). A second pass over the result would be another path.
std::optional<std::string> Unescaped(absl::string_view path) {
  std::string bytes;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%') {
      bytes.push_back(path[i]);
      continue;
    }
    if (i + 2 >= path.size() || !IsHexDigit(path[i + 1]) || !IsHexDigit(path[i + 2])) {
      return std::nullopt;
    }
    bytes += absl::HexStringToBytes(path.substr(i + 1, 2));
    i += 2;
  }
  return bytes;
}

bool IsIdentity(absl::string_view codings) {
  const std::vector<absl::string_view> words = absl::StrSplit(codings, ',');
  return std::all_of(words.begin(), words.end(), [](absl::string_view word) {
    return TrimBlanks(word).empty() || absl::EqualsIgnoreCase(TrimBlanks(word), "identity");
  });
}

std::optional<uint64_t> Digits(absl::string_view text) {
  uint64_t value = 0;
  if (text.empty() || text.size() > kMaxLengthDigits ||
      !std::all_of(text.begin(), text.end(), IsDigit) || !absl::SimpleAtoi(text, &value)) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

size_t RequestReader::Read(absl::string_view bytes) {
  size_t taken = 0;
  absl::string_view line;
  while (state_ == State::kHead && TakeLine(bytes, taken, line)) OnHeadLine(line);
  if (state_ == State::kBody) taken += ReadBody(bytes.substr(taken));
  return taken;
}

void RequestReader::Accept() {
  TANDEM_CHECK(state_ == State::kHeadRead);
  state_ = chunked_ || left_ > 0 ? State::kBody : State::kComplete;
  part_ = chunked_ ? Part::kChunkSize : Part::kSized;
}

bool RequestReader::TakeLine(absl::string_view bytes, size_t& taken, absl::string_view& line) {
  const bool in_head = state_ == State::kHead;
  const absl::string_view rest = bytes.substr(taken);
  const size_t end = rest.find('\n');
  size_t most = kMaxChunkLineBytes;
  if (in_head) most = limits_.max_head_bytes - head_bytes_;
  if (!in_head && part_ == Part::kTrailers) most = limits_.max_head_bytes - extra_bytes_;
  if (std::min(end, rest.size()) >= most) {
    RefuseLine();
    return false;
  }
  if (end == absl::string_view::npos) return false;
  if (end == 0 || rest[end - 1] != '\r') {
    Refuse(400, "a line does not end with CR LF");
    return false;
  }
  line = rest.substr(0, end - 1);
  taken += end + 1;
  if (in_head) {
    head_bytes_ += end + 1;
    return true;
  }
  extra_bytes_ +=
      part_ == Part::kTrailers ? end + 1 : line.size() - std::min(line.size(), kMaxChunkDigits);
  if (extra_bytes_ > limits_.max_head_bytes) RefuseLine();
  return state_ != State::kRefused;
}

void RequestReader::OnHeadLine(absl::string_view line) {
  if (!request_.method.empty()) {
    if (line.empty()) return OnHeadEnd();
    return OnHeader(line);
  }
  // One empty line before a request is none of it (RFC 9112, 2.2).
  if (line.empty() && head_bytes_ == 2) return;
  OnRequestLine(line);
}

void RequestReader::OnRequestLine(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (words.size() != 3 || !IsToken(words[0]) || words[0].size() > kMaxMethodBytes ||
      words[1].empty() || !IsTarget(words[1])) {
    return Refuse(400, "the first line is not METHOD TARGET HTTP/1.1");
  }
  absl::string_view version = words[2];
  if (!absl::ConsumePrefix(&version, "HTTP/") || version.size() != 3 || !IsDigit(version[0]) ||
      version[1] != '.' || !IsDigit(version[2])) {
    return Refuse(400, "the first line does not end with HTTP/1.1");
  }
  if (version != "1.1" && version != "1.0") {
    return Refuse(505, "HTTP/1.1 and HTTP/1.0 are served, and no other version");
  }
  http_1_0_ = version == "1.0";
  OnTarget(words[1]);
  if (state_ != State::kRefused) request_.method = std::string(words[0]);
}

// A path, or the whole address, as a proxy sends it.
void RequestReader::OnTarget(absl::string_view target) {
  if (absl::ConsumePrefix(&target, "http://") || absl::ConsumePrefix(&target, "https://")) {
    const size_t slash = target.find_first_of("/?");
    target = slash == absl::string_view::npos ? absl::string_view() : target.substr(slash);
    if (target.empty()) target = "/";
  }
  if (target.front() != '/') return Refuse(400, "the target is not a path: it must begin with '/'");
  target = target.substr(0, target.find('#'));
  const size_t query = target.find('?');
  const std::optional<std::string> path = Unescaped(target.substr(0, query));
  if (!path.has_value())
    return Refuse(400, "in the path, a '%' is not followed by two hexadecimal digits");
  request_.path = *path;
  if (query != absl::string_view::npos) request_.query = std::string(target.substr(query + 1));
}

void RequestReader::OnHeader(absl::string_view line) {
  if (line.front() == ' ' || line.front() == '\t') return Refuse(400, "a header is folded");
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos || !IsToken(line.substr(0, colon))) {
    return Refuse(400, "a header is not NAME: VALUE");
  }
  const absl::string_view value = TrimBlanks(line.substr(colon + 1));
  if (!IsFieldValue(value)) return Refuse(400, "a header's value has a control character");
  if (request_.headers.size() >= limits_.max_headers) {
    return Refuse(431, absl::StrCat("a request has at most ", limits_.max_headers, " headers"));
  }
  request_.headers.push_back({absl::AsciiStrToLower(line.substr(0, colon)), std::string(value)});
}

void RequestReader::OnHeadEnd() {
  const size_t hosts = request_.Values("host").size();
  if (hosts > 1 || (hosts == 0 && !http_1_0_)) return Refuse(400, "it must have one header Host");
  OnConnection();
  OnLength();
  if (state_ == State::kRefused) return;
  if (chunked_ || left_ > 0) {
    for (absl::string_view codings : request_.Values("content-encoding")) {
      if (IsIdentity(codings)) continue;
      return Refuse(415,
                    "the body has a header Content-Encoding, and no coding but identity is "
                    "served: send the body as it is, without that header");
    }
  }
  for (absl::string_view value : request_.Values("expect")) {
    if (!absl::EqualsIgnoreCase(value, "100-continue")) {
      return Refuse(417, "Expect: 100-continue is served, and nothing else");
    }
    expects_continue_ = !http_1_0_;
  }
  state_ = State::kHeadRead;
}

void RequestReader::OnConnection() {
  keep_alive_ = !http_1_0_;  // 1.0 has no chunks, so a stream of it ends with its connection
  for (absl::string_view value : request_.Values("connection")) {
    for (absl::string_view word : absl::StrSplit(value, ',')) {
      if (absl::EqualsIgnoreCase(TrimBlanks(word), "close")) keep_alive_ = false;
    }
  }
}

void RequestReader::OnLength() {
  const std::vector<absl::string_view> lengths = request_.Values("content-length");
  const std::vector<absl::string_view> codings = request_.Values("transfer-encoding");
  if (lengths.size() > 1) return Refuse(400, "it has more than one header Content-Length");
  if (!codings.empty()) {
    if (!lengths.empty()) {
      return Refuse(400, "it has both Content-Length and Transfer-Encoding");
    }
    if (http_1_0_) return Refuse(400, "HTTP/1.0 has no Transfer-Encoding");
    if (codings.size() > 1 || !absl::EqualsIgnoreCase(codings[0], "chunked")) {
      return Refuse(501, "Transfer-Encoding: chunked is served, and nothing else");
    }
    chunked_ = true;
    return;
  }
  if (lengths.empty()) return;
  const std::optional<uint64_t> length = Digits(lengths[0]);
  if (!length.has_value()) return Refuse(400, "Content-Length is not a number");
  if (*length > limits_.max_body_bytes) {
    return Refuse(413, absl::StrCat("a body has at most ", limits_.max_body_bytes, " bytes"));
  }
  left_ = *length;
}

size_t RequestReader::ReadBody(absl::string_view bytes) {
  size_t taken = 0;
  absl::string_view line;
  while (state_ == State::kBody) {
    switch (part_) {
      case Part::kSized:
      case Part::kChunkData: {
        const auto now = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size() - taken));
        request_.body.append(bytes.data() + taken, now);
        taken += now;
        left_ -= now;
        if (left_ > 0) return taken;
        if (part_ == Part::kSized) {
          state_ = State::kComplete;
        } else {
          part_ = Part::kChunkEnd;
        }
        break;
      }
      case Part::kChunkEnd:
        if (!TakeLine(bytes, taken, line)) return taken;
        if (!line.empty()) {
          Refuse(400, "a chunk of the body is longer than it says");
        } else {
          part_ = Part::kChunkSize;
        }
        break;
      case Part::kChunkSize:
        if (!TakeLine(bytes, taken, line)) return taken;
        OnChunkSize(line);
        break;
      case Part::kTrailers:
        if (!TakeLine(bytes, taken, line)) return taken;
        if (line.empty()) {
          state_ = State::kComplete;
        } else if (line.find(':') == absl::string_view::npos || !IsFieldValue(line)) {
          Refuse(400, "a line after the body is not NAME: VALUE");
        }
        break;
    }
  }
  return taken;
}

void RequestReader::OnChunkSize(absl::string_view line) {
  const absl::string_view digits = TrimBlanks(line.substr(0, line.find(';')));
  if (digits.empty() || digits.size() > kMaxChunkDigits || !IsFieldValue(line) ||
      !absl::SimpleHexAtoi(digits, &left_) || !IsHexDigit(digits.front()) ||
      (digits.size() > 1 && !IsHexDigit(digits[1]))) {
    return Refuse(400, "a chunk of the body does not begin with its size");
  }
  if (left_ > limits_.max_body_bytes - request_.body.size()) {
    return Refuse(413, absl::StrCat("a body has at most ", limits_.max_body_bytes, " bytes"));
  }
  part_ = left_ > 0 ? Part::kChunkData : Part::kTrailers;
}

void RequestReader::RefuseLine() {
  const size_t most = limits_.max_head_bytes;
  if (state_ == State::kHead) {
    return Refuse(431, absl::StrCat("a request's head has at most ", most, " bytes"));
  }
  Refuse(400, absl::StrCat(
                  "the lines between the chunks of the body are too long: one has at most ",
                  kMaxChunkLineBytes, " bytes, and all extensions and trailers together ", most));
}

void RequestReader::Refuse(int code, absl::string_view reason) {
  state_ = State::kRefused;
  refused_code_ = code;
  refused_reason_ = std::string(reason);
}

}  // namespace tandem::http
