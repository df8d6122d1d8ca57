// Who watches a pull.
#pragma once

#include <cstdint>
#include <string>

namespace tandem::client {

// Called from the thread that pulls.
class PullObserver {
 public:
  virtual ~PullObserver() = default;
  // Before the first download: of `bytes` in all, `held` are in the cache already.
  virtual void OnPlan(int files, int64_t bytes, int64_t held) = 0;
  virtual void OnFile(const std::string& name, int64_t size) = 0;  // is downloaded next
  // So many bytes more are in the cache; fewer, if a download begins anew.
  virtual void OnBytes(int64_t bytes) = 0;
  // Something to tell: another process is waited for, the hub is asked again.
  virtual void OnNote(const std::string& text) = 0;
};

}  // namespace tandem::client
