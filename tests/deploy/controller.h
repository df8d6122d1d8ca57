// Several Deployments, kept as they should be by a thread of its own: a small Kubernetes in
// processes.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/concurrency/mutex.h"
#include "tests/deploy/deployment.h"
#include "tests/deploy/names.h"

namespace tandem::testing {

struct PodView {
  std::string name;
  std::string address;  // without a port
  int admin_port = 0;
  bool ready = false;
  bool deleted = false;
  bool gone = false;
};

// Thread-safe. One at a time in a process.
class Controller {
 public:
  explicit Controller(std::vector<DeploymentSpec> specs);
  ~Controller();  // kills what still runs

  void Roll(const std::string& deployment);
  void Scale(const std::string& deployment, int replicas);
  // False: it did not settle in time.
  bool WaitUntilSettled(const std::string& deployment,
                        absl::Duration patience = absl::Seconds(150));

  // All there ever were.
  std::vector<PodView> Pods(const std::string& deployment) const;
  std::vector<PodView> ReadyPods(const std::string& deployment) const;
  // What must not happen to pods, all of them together.
  std::vector<std::string> Problems() const;

 private:
  void Run();
  Deployment& Find(const std::string& name) const TANDEM_REQUIRES(mutex_);

  mutable concurrency::Mutex mutex_;
  Names names_ TANDEM_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Deployment>> deployments_ TANDEM_GUARDED_BY(mutex_);
  bool stop_ TANDEM_GUARDED_BY(mutex_) = false;
  int next_address_ = 1;  // the thread's
  std::thread thread_;
};

// A port that nobody uses on any address now; each another one. For one thread.
int FreePort();

}  // namespace tandem::testing
