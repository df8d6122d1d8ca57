// The answer to one request, from any thread.
//
//   whole      Respond
//   a stream   Begin, Write …, End
//
// Bytes wait in the connection until the client takes them. Each piece that was written is told to
// the listener, so who writes knows to the piece how far behind the client is.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/http/request.h"

namespace tandem::http {

struct Response {
  int code = 200;
  std::string type = "application/json";
  std::vector<Header> headers;  // besides Content-Type, Content-Length and Connection
  std::string body;
};

class ReplyListener {
 public:
  virtual ~ReplyListener() = default;
  // A piece of Write left for the client, as they were written.
  virtual void OnWritten() = 0;
  // The last call. False: the client is gone, or the connection was closed, before all of the
  // answer had left.
  virtual void OnOver(bool complete) = 0;
};

// Thread-safe. What comes after the end does nothing, so late results need no care.
class Reply {
 public:
  virtual ~Reply() = default;

  // Call it at most once. The calls come on the port's thread, one at a time, and never inside a
  // call of this object, with one exception: if all is over already, that is told inside Listen. Of
  // pieces that left before, it is told later.
  virtual void Listen(std::shared_ptr<ReplyListener> listener) = 0;

  // The whole answer.
  virtual void Respond(Response response) = 0;

  // A stream; the response's body is its first piece, of which the listener does not hear.
  virtual void Begin(Response response) = 0;
  virtual void Write(std::string piece) = 0;  // may be empty: told when it would have left
  virtual void End() = 0;

  // Drops what waits, and closes the connection: the client sees that the answer is not complete.
  virtual void Abort() = 0;
};

// "Not Found"; "Error" for a code that this project does not send.
absl::string_view Reason(int code);

// The status line and the headers, with the empty line. `framing`: Content-Length or
// Transfer-Encoding, whole and with its line's end; may be empty.
std::string HeadText(const Response& response, absl::string_view framing, bool keep_alive);

// One chunk of a body. Of an empty piece: nothing, for that would be the end.
std::string ChunkText(absl::string_view piece);
inline constexpr absl::string_view kLastChunk = "0\r\n\r\n";

}  // namespace tandem::http
