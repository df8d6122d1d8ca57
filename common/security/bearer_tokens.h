// The tokens of those who may call: a file, one token a line.
//
//   # the web front
//   mF8x…
//
// Empty lines and lines that begin with '#' count for nothing; white space around a token is
// dropped. A token has 16 to 4096 visible ASCII characters. The file is looked at with every check,
// and read when it was replaced: a new token is good, and an old one is not, from the next call on.
// Replace it as a whole: write a new file beside it, then rename. A wrong file is reported once,
// and the tokens from before stay in force.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/concurrency/mutex.h"
#include "common/security/pem_files.h"
#include "common/security/refusal_log.h"

namespace tandem::security {

// Thread-safe.
class BearerTokens {
 public:
  // INVALID_ARGUMENT names the file and the line, never what is in it. The others as ReadSmallFile.
  static absl::StatusOr<std::unique_ptr<BearerTokens>> Load(const std::string& path);

  // Comes after all checks. Takes the lock so that ThreadSanitizer sees the order, which gRPC
  // makes.
  ~BearerTokens();
  BearerTokens(const BearerTokens&) = delete;
  BearerTokens& operator=(const BearerTokens&) = delete;

  // `values`: those of all metadata of a call that is named `authorization`. UNAUTHENTICATED says
  // what is missing. The time it takes depends neither on how much of a token is right, nor on
  // which token it is.
  absl::Status Check(absl::Span<const absl::string_view> values) TANDEM_EXCLUDES(mutex_);

  size_t size() TANDEM_EXCLUDES(mutex_);

  // The callers that they kept out.
  RefusalLog& refusals() { return refusals_; }

 private:
  using Digest = std::array<unsigned char, 32>;  // SHA-256: all are of one length
  BearerTokens(std::string path, FileStamps stamps, std::vector<Digest> digests);
  static absl::StatusOr<std::vector<Digest>> Read(const std::string& path);
  void ReloadIfChanged() TANDEM_REQUIRES(mutex_);

  const std::string path_;
  concurrency::Mutex mutex_;
  FileStamps stamps_ TANDEM_GUARDED_BY(mutex_);
  std::vector<Digest> digests_ TANDEM_GUARDED_BY(mutex_);
  RefusalLog refusals_;
};

// The token that a client sends: the first one of such a file. The file is looked at with every
// call, and read when it was replaced. A wrong file is reported once, and the token from before
// stays. Thread-safe.
class ClientToken {
 public:
  // Errors as BearerTokens::Load.
  static absl::StatusOr<std::shared_ptr<ClientToken>> Load(const std::string& path);
  // A token that is in no file. INVALID_ARGUMENT names `source`, never the token.
  static absl::StatusOr<std::shared_ptr<ClientToken>> Of(absl::string_view source,
                                                         absl::string_view token);

  // "Bearer TOKEN", the value of `authorization`.
  std::string Authorization() TANDEM_EXCLUDES(mutex_);

 private:
  ClientToken(std::string path, FileStamps stamps, std::string authorization);

  const std::string path_;
  concurrency::Mutex mutex_;
  FileStamps stamps_ TANDEM_GUARDED_BY(mutex_);
  std::string authorization_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::security
