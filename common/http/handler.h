// What a port asks of those who answer.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/http/reply.h"
#include "common/http/request.h"

namespace tandem::http {

// Thread-safe. All calls come on the port's thread, and must not block.
class Handler {
 public:
  virtual ~Handler() = default;

  // Looks at the head, before the body is read. An error: the body is not, the request comes with
  // it in `refused`, and the connection ends with the answer.
  virtual absl::Status OnHead(const Request& head) = 0;

  // A request that has come as a whole, or was refused by its head. The answer goes to `reply`,
  // from any thread, at any time.
  virtual void OnRequest(Request request, std::shared_ptr<Reply> reply) = 0;

  // The answer to what is not a request, or came too slowly: `code` is HTTP's.
  virtual Response Malformed(int code, absl::string_view reason) = 0;

  // Room for so many bytes of a client's body. An error refuses the request, or another one of that
  // client's address, and then comes again.
  virtual absl::StatusOr<std::shared_ptr<const void>> Hold(const std::string& client,
                                                           size_t bytes) = 0;
};

}  // namespace tandem::http
