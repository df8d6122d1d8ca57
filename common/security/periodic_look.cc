#include "common/security/periodic_look.h"

#include <pthread.h>

#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/concurrency/mutex.h"

namespace tandem::security {
namespace {

constexpr absl::Duration kEvery = absl::Milliseconds(500);

// Never destroyed: whoever adds a look may do so until the process ends.
class Looks {
 public:
  static Looks& Get() {
    static Looks& looks = *new Looks;
    return looks;
  }

  void Add(std::function<void()> look) TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    looks_.push_back(std::move(look));
  }

 private:
  Looks() : thread_([this] { Run(); }) {
    pthread_setname_np(thread_.native_handle(), "tls-files");
    std::atexit([] { Get().Stop(); });
  }

  void Run() TANDEM_EXCLUDES(mutex_) {
    while (true) {
      std::vector<std::function<void()>> looks;
      {
        concurrency::MutexLock lock(mutex_);
        if (!stopping_) changed_.WaitFor(mutex_, kEvery);
        if (stopping_) return;
        looks = looks_;
      }
      for (const std::function<void()>& look : looks)
        look();  // without the lock: they have their own
    }
  }

  void Stop() TANDEM_EXCLUDES(mutex_) {
    {
      concurrency::MutexLock lock(mutex_);
      stopping_ = true;
    }
    changed_.NotifyAll();
    thread_.join();
  }

  concurrency::Mutex mutex_;
  concurrency::CondVar changed_;
  bool stopping_ TANDEM_GUARDED_BY(mutex_) = false;
  std::vector<std::function<void()>> looks_ TANDEM_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses the others
};

}  // namespace

void LookNowAndThen(std::function<void()> look) { Looks::Get().Add(std::move(look)); }

}  // namespace tandem::security
