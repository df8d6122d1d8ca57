// Reads a request of HTTP/1.1 or 1.0 (RFC 9112) out of bytes, however they are cut. It knows no
// socket.
//
// It is strict, because a lenient reader behind a proxy is how requests are smuggled: a line ends
// with CR LF, a length is given once and in one way, a header is not folded, `chunked` is the only
// coding. What it refuses has a status of HTTP and a reason that shows nothing of what was sent.
//
// | state     | what comes                                                            |
// |-----------|-----------------------------------------------------------------------|
// | kHead     | the request line and the headers                                      |
// | kHeadRead | nothing, until Accept: the caller may refuse the request by its head   |
// | kBody     | the body                                                              |
// | kComplete | nothing more of this request                                          |
// | kRefused  | nothing more at all: what follows cannot be told apart                 |
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "common/http/request.h"

namespace tandem::http {

struct ReaderLimits {
  // Request line and headers. The same limit holds for the framing of a chunked body: extensions of
  // chunks and trailers, all together.
  size_t max_head_bytes = size_t{16} << 10;
  size_t max_headers = 100;
  size_t max_body_bytes = size_t{8} << 20;
};

// Not thread-safe.
class RequestReader {
 public:
  enum class State { kHead, kHeadRead, kBody, kComplete, kRefused };

  explicit RequestReader(const ReaderLimits& limits) : limits_(limits) {}

  // Takes bytes from the front and returns how many it took. The rest comes again, with what
  // follows it. It takes nothing in kHeadRead, kComplete and kRefused.
  size_t Read(absl::string_view bytes);
  // Only in kHeadRead: goes on with the body, or completes.
  void Accept();

  State state() const { return state_; }
  bool begun() const { return head_bytes_ > 0; }  // something of the request has come
  Request& request() { return request_; }         // from kHeadRead on it has its head

  // From kHeadRead on.
  bool http_1_0() const { return http_1_0_; }
  bool keep_alive() const { return keep_alive_; }              // as the client wants it
  bool expects_continue() const { return expects_continue_; }  // waits for "100 Continue"

  // In kRefused.
  int refused_code() const { return refused_code_; }
  const std::string& refused_reason() const { return refused_reason_; }

 private:
  enum class Part { kSized, kChunkSize, kChunkData, kChunkEnd, kTrailers };

  // Takes one line without its end; false: it is not complete yet, or was refused.
  bool TakeLine(absl::string_view bytes, size_t& taken, absl::string_view& line);
  void OnHeadLine(absl::string_view line);
  void OnRequestLine(absl::string_view line);
  void OnTarget(absl::string_view target);
  void OnHeader(absl::string_view line);
  void OnHeadEnd();
  void OnLength();
  void OnConnection();
  size_t ReadBody(absl::string_view bytes);
  void OnChunkSize(absl::string_view line);
  void RefuseLine();  // it is too long
  void Refuse(int code, absl::string_view reason);

  const ReaderLimits limits_;
  State state_ = State::kHead;
  Request request_;
  size_t head_bytes_ = 0;
  size_t extra_bytes_ = 0;  // extensions of chunks, and trailers
  bool http_1_0_ = false;
  bool keep_alive_ = true;
  bool expects_continue_ = false;
  bool chunked_ = false;
  Part part_ = Part::kSized;
  uint64_t left_ = 0;  // bytes of the body, or of the present chunk
  int refused_code_ = 0;
  std::string refused_reason_;
};

}  // namespace tandem::http
