#include "common/process/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

namespace tandem::process {
namespace {

// Beyond it the memory of connections counts, and some systems have 2^30.
constexpr rlim_t kMax = 1 << 20;

}  // namespace

int RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  rlimit raised = limit;
  raised.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kMax));
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  return static_cast<int>(std::min(limit.rlim_cur, kMax));
}

}  // namespace tandem::process
