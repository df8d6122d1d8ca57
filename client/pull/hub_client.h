// What the hub is asked: which files a revision has, what they are, and their bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/pull/http.h"
#include "common/hub/hub_name.h"
#include "common/hub/settings.h"

namespace tandem::client {

// Whether another try may help.
bool MayRetry(const absl::Status& status);
inline constexpr int kMaxFailures = 5;  // in a row

struct RemoteRevision {
  std::string commit;              // 40 hexadecimal digits
  std::vector<std::string> files;  // paths in the repository
};

struct RemoteFile {
  std::string name;  // in the repository
  std::string etag;  // a hash (digest.h); the name of its blob
  int64_t size = 0;
};

// Of one repository. The token goes to the endpoint's own origin alone: files are redirected to
// other servers by addresses that are signed. Replies, redirects and waits are bounded.
//
// Errors of all: NOT_FOUND (no such repository, revision or file), PERMISSION_DENIED (gated, or a
// token that is wrong), UNAVAILABLE (nobody answers, or answers that another time would do), and
// those of Http; each says what would be right.
//
// Thread safety: one thread.
class HubClient {
 public:
  HubClient(const hub::Settings& settings, const hub::HubName& name);

  // Tries again where that may help, until it has failed `max_failures` times. `note` is told of
  // it.
  absl::StatusOr<RemoteRevision> Revision(int max_failures,
                                          const std::function<void(const std::string&)>& note);
  // The same, until it has failed kMaxFailures times.
  absl::StatusOr<RemoteFile> File(const std::string& commit, const std::string& file,
                                  const std::function<void(const std::string&)>& note);

  // Gives the bytes of a file from `from` on to `body`, once: whoever wants more tries again.
  // `begin` is told before the first of them where they begin: at `from`, or at 0 if the server
  // gives the whole file. A reply of no bytes does not call it.
  absl::Status Fetch(const std::string& commit, const std::string& file, int64_t from,
                     const std::function<absl::Status(int64_t offset)>& begin,
                     const std::function<absl::Status(absl::string_view bytes)>& body);

  // How long to wait before the try after `failures` in a row; longer if the hub asked for it.
  absl::Duration Wait(int failures) const;

 private:
  absl::StatusOr<HttpReply> Follow(HttpRequest request, const HttpBody& body);
  absl::StatusOr<std::string> Text(const std::string& url, size_t max_bytes);
  absl::Status Explain(const HttpReply& reply, const std::string& what);
  std::string KnownRevisions();
  std::string Api(const std::string& rest) const;

  const hub::Settings settings_;
  const hub::HubName name_;
  const std::string origin_;
  Http http_;
  absl::Duration asked_to_wait_;  // by the last reply
};

}  // namespace tandem::client
