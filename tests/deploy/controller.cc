#include "tests/deploy/controller.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "tests/support/wait.h"

namespace tandem::testing {

Controller::Controller(std::vector<DeploymentSpec> specs) {
  {
    concurrency::MutexLock lock(mutex_);
    for (DeploymentSpec& spec : specs) {
      deployments_.push_back(std::make_unique<Deployment>(
          std::move(spec), names_, [this] { return absl::StrCat("127.0.0.", ++next_address_); }));
    }
  }
  thread_ = std::thread([this] { Run(); });
}

Controller::~Controller() {
  {
    concurrency::MutexLock lock(mutex_);
    stop_ = true;
  }
  thread_.join();
}

void Controller::Run() {
  while (true) {
    {
      concurrency::MutexLock lock(mutex_);
      if (stop_) {
        deployments_.clear();
        return;
      }
      for (const auto& deployment : deployments_) deployment->Tick();
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
}

Deployment& Controller::Find(const std::string& name) const {
  for (const auto& deployment : deployments_) {
    if (deployment->name() == name) return *deployment;
  }
  TANDEM_CHECK(false) << "no deployment " << name;
  std::abort();
}

void Controller::Roll(const std::string& deployment) {
  Say(absl::StrCat(deployment, " is rolled"));
  concurrency::MutexLock lock(mutex_);
  Find(deployment).Roll();
}

void Controller::Scale(const std::string& deployment, int replicas) {
  Say(absl::StrCat(deployment, " is scaled to ", replicas));
  concurrency::MutexLock lock(mutex_);
  Find(deployment).Scale(replicas);
}

bool Controller::WaitUntilSettled(const std::string& deployment, absl::Duration patience) {
  return WaitUntil(
      [&] {
        concurrency::MutexLock lock(mutex_);
        return Find(deployment).Settled();
      },
      patience);
}

std::vector<PodView> Controller::Pods(const std::string& deployment) const {
  concurrency::MutexLock lock(mutex_);
  std::vector<PodView> views;
  for (const auto& pod : Find(deployment).pods()) {
    views.push_back({pod->name(), pod->address(), pod->admin_port(), pod->ready(), pod->deleted(),
                     pod->gone()});
  }
  return views;
}

std::vector<PodView> Controller::ReadyPods(const std::string& deployment) const {
  std::vector<PodView> pods = Pods(deployment);
  pods.erase(
      std::remove_if(pods.begin(), pods.end(), [](const PodView& pod) { return !pod.ready; }),
      pods.end());
  return pods;
}

std::vector<std::string> Controller::Problems() const {
  concurrency::MutexLock lock(mutex_);
  std::vector<std::string> problems;
  for (const auto& deployment : deployments_) {
    for (const auto& pod : deployment->pods()) {
      problems.insert(problems.end(), pod->problems().begin(), pod->problems().end());
    }
  }
  return problems;
}

int FreePort() {
  static auto& given = *new std::set<int>;
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;  // of any address
  socklen_t size = sizeof(address);
  TANDEM_CHECK(probe >= 0 && bind(probe, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
               getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  close(probe);
  const int port = ntohs(address.sin_port);
  return given.insert(port).second ? port : FreePort();
}

}  // namespace tandem::testing
