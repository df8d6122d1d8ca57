// Reads and checks certificates and keys in files, and notices when the files change.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tandem::security {

// Reads a small file as a whole. NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT (empty, a folder,
// over 1 MiB) name `what` and the path.
absl::StatusOr<std::string> ReadSmallFile(const std::string& what, const std::string& path);

// A certificate with those between it and its authority, and its key. No secret is ever in a
// status.
struct Identity {
  std::string certificate;  // PEM, as the file has it
  std::string key;
  absl::Time not_after;  // the earliest of all of them
  std::string subject;   // the first one's, for logs
};

// FAILED_PRECONDITION, naming the file: it has no certificate or key, is not valid yet, or has
// expired. ABORTED: the key belongs to another certificate, which may be half of a replacement.
// Other errors as ReadSmallFile.
absl::StatusOr<Identity> ReadIdentity(const std::string& certificate_path,
                                      const std::string& key_path, absl::Time now = absl::Now());

// One or more authorities, against which certificates are checked.
struct Authorities {
  std::string certificates;  // PEM, as the file has it
  absl::Time not_after;      // the latest: then there is none left
};

// FAILED_PRECONDITION when none of them is valid now, or one cannot be read.
absl::StatusOr<Authorities> ReadAuthorities(const std::string& path, absl::Time now = absl::Now());

// Calls `read`, and again for a second while it returns ABORTED: a process may begin between the
// two halves of a replacement.
absl::Status ReadPatiently(const std::function<absl::Status()>& read);

// Tells whether files were replaced or written, by device, inode, size and time of change. So two
// replacements in one second are two. A missing file is a state like any other. Not thread-safe.
class FileStamps {
 public:
  explicit FileStamps(std::vector<std::string> paths);
  // Whether the files differ from those at the last call (the first time: at the construction).
  bool Changed();

 private:
  struct Stamp {
    uint64_t device = 0;
    uint64_t inode = 0;
    int64_t size = -1;
    int64_t changed_ns = 0;
    bool operator==(const Stamp&) const = default;
  };
  std::vector<Stamp> Look() const;

  std::vector<std::string> paths_;
  std::vector<Stamp> seen_;
};

}  // namespace tandem::security
