#include "common/transport/connection_limit.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

namespace tandem::transport {
namespace {

constexpr int kReserve = 128;
// A look costs a system call a connection, so not all are looked at with every caller that finds
// the port full.
constexpr absl::Duration kLookAgain = absl::Milliseconds(50);
constexpr size_t kLookAtOnce = 64;

}  // namespace

// Others close a socket at any time, and its number may be another descriptor's by now: that is
// what this finds out, so no lock could order the two. The kernel is asked without the C library,
// whose fstat ThreadSanitizer takes for a use of the descriptor.
ino_t InodeOf(int socket) {
  struct stat status {};
  const bool found = syscall(SYS_fstat, socket, &status) == 0;
  return found && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

bool ConnectionLimit::Admit(int socket, absl::Time now) {
  if (!HasRoom(socket, now)) return false;
  open_.push_back({socket, InodeOf(socket)});
  return true;
}

bool ConnectionLimit::HasRoom(int socket, absl::Time now) {
  if (socket >= max_descriptor_) return false;
  if (open_.size() >= max_connections_) {
    if (now - looked_ >= kLookAgain) {
      looked_ = now;
      next_ = 0;
      ForgetClosed(open_.size());
    } else {
      ForgetClosed(kLookAtOnce);
    }
  }
  return open_.size() < max_connections_;
}

void ConnectionLimit::Forget(int socket) {
  open_.erase(std::remove_if(open_.begin(), open_.end(),
                             [&](const Connection& one) { return one.socket == socket; }),
              open_.end());
}

void ConnectionLimit::ForgetClosed(size_t most) {
  if (next_ >= open_.size()) next_ = 0;
  const auto begin = open_.begin() + static_cast<ptrdiff_t>(next_);
  const auto end = begin + static_cast<ptrdiff_t>(std::min(most, open_.size() - next_));
  const auto kept = std::remove_if(begin, end, [](const Connection& one) {
    return one.inode == 0 || InodeOf(one.socket) != one.inode;
  });
  next_ = static_cast<size_t>(kept - open_.begin());
  open_.erase(kept, end);
}

int MaxDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return static_cast<int>(
      std::min<rlim_t>(limit.rlim_cur, static_cast<rlim_t>(std::numeric_limits<int>::max())));
}

int ReservedDescriptors(int max_descriptors) { return std::min(kReserve, max_descriptors / 4); }

}  // namespace tandem::transport
