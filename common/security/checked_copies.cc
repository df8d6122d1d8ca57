#include "common/security/checked_copies.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "common/concurrency/mutex.h"
#include "common/security/certificate_expiry.h"
#include "common/security/pem_files.h"
#include "common/security/periodic_look.h"

namespace tandem::security {
namespace {

// A file in memory whose descriptor, and so its path, stays while its content is replaced as a
// whole.
class MemoryFile {
 public:
  std::string path() const { return fd_ < 0 ? "" : absl::StrCat("/proc/self/fd/", fd_); }

  absl::Status Replace(const std::string& text) {
    const int next = memfd_create("tandem-tls", MFD_CLOEXEC);
    if (next < 0) return Failed("memfd_create");
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t size = write(next, text.data() + done, text.size() - done);
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) return Close(next, Failed("write"));
      done += static_cast<size_t>(size);
    }
    // Never the same second twice.
    second_ = std::max(second_ + 1, absl::ToUnixSeconds(absl::Now()));
    const timespec times[2] = {{second_, 0}, {second_, 0}};
    if (futimens(next, times) != 0) return Close(next, Failed("futimens"));
    if (fd_ < 0) {
      fd_ = next;
      return absl::OkStatus();
    }
    if (dup3(next, fd_, O_CLOEXEC) < 0) return Close(next, Failed("dup3"));
    return Close(next, absl::OkStatus());
  }

 private:
  static absl::Status Failed(const char* call) {
    return absl::UnavailableError(absl::StrCat("TLS files: ", call, ": ", std::strerror(errno)));
  }
  static absl::Status Close(int fd, absl::Status status) {
    close(fd);
    return status;
  }

  int fd_ = -1;  // never closed
  int64_t second_ = 0;
};

class Copies {
 public:
  explicit Copies(const TlsClientOptions& options)
      : options_(options), stamps_({options.ca, options.certificate, options.key}) {}

  // Of files that are wrong nothing is taken.
  absl::Status Read() {
    TANDEM_ASSIGN_OR_RETURN(const Authorities authorities, ReadAuthorities(options_.ca));
    if (!options_.certificate.empty()) {
      TANDEM_ASSIGN_OR_RETURN(const Identity identity,
                              ReadIdentity(options_.certificate, options_.key));
      TANDEM_RETURN_IF_ERROR(identity_.Replace(identity.certificate + "\n" + identity.key));
      subject_ = identity.subject;
      CertificateExpiry::Get().Set(options_.certificate, identity.not_after);
    }
    CertificateExpiry::Get().Set(options_.ca, authorities.not_after);
    return ca_.Replace(authorities.certificates);
  }

  void Look() {
    if (!stamps_.Changed()) return;
    const absl::Status read = Read();
    if (!read.ok()) {
      TANDEM_LOG(kError) << base::LogFields("certificate_kept")
                                .Add("reason", read.message())
                                .Add("in_force", subject_);
      return;
    }
    TANDEM_LOG(kInfo) << base::LogFields("certificate_replaced")
                             .Add("file",
                                  options_.certificate.empty() ? options_.ca : options_.certificate)
                             .Add("subject", subject_);
  }

  CheckedCopies paths() const { return {ca_.path(), identity_.path()}; }

 private:
  const TlsClientOptions options_;
  FileStamps stamps_;
  MemoryFile ca_;
  MemoryFile identity_;
  std::string subject_;
};

// All of the process's; never destroyed, as gRPC's watchers end when they like.
class Registry {
 public:
  static Registry& Get() {
    static Registry& registry = *new Registry;
    return registry;
  }

  absl::StatusOr<CheckedCopies> Of(const TlsClientOptions& options) TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    std::unique_ptr<Copies>& copies = all_[{options.ca, options.certificate, options.key}];
    if (copies == nullptr) {
      auto made = std::make_unique<Copies>(options);
      TANDEM_RETURN_IF_ERROR(made->Read());
      const CheckedCopies paths = made->paths();
      if (access(paths.ca.c_str(), R_OK) != 0) {
        return absl::UnavailableError(
            absl::StrCat("TLS files: ", paths.ca, ": ", std::strerror(errno),
                         "; a process with TLS must be able to read its own /proc/self/fd"));
      }
      copies = std::move(made);
    } else {
      copies->Look();
    }
    return copies->paths();
  }

 private:
  Registry() {
    LookNowAndThen([this] { Look(); });
  }

  void Look() TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    for (auto& [files, copies] : all_) {
      if (copies != nullptr) copies->Look();
    }
  }

  concurrency::Mutex mutex_;
  std::map<std::tuple<std::string, std::string, std::string>, std::unique_ptr<Copies>> all_
      TANDEM_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<CheckedCopies> CopiesOf(const TlsClientOptions& options) {
  CheckedCopies copies;
  TANDEM_RETURN_IF_ERROR(ReadPatiently([&]() -> absl::Status {
    // First, also where there are copies of what these files were once.
    TANDEM_RETURN_IF_ERROR(ReadAuthorities(options.ca).status());
    if (!options.certificate.empty()) {
      TANDEM_RETURN_IF_ERROR(ReadIdentity(options.certificate, options.key).status());
    }
    TANDEM_ASSIGN_OR_RETURN(copies, Registry::Get().Of(options));
    return absl::OkStatus();
  }));
  return copies;
}

}  // namespace tandem::security
