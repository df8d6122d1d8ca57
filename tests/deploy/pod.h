// A process as Kubernetes runs a pod: on an address of its own, probed over gRPC, ended in steps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/integration/process_cluster.h"

namespace tandem::testing {

// What all pods of a service have in common. Probes as in k8s/base, but that all periods are
// shorter.
struct PodSpec {
  std::string binary;              // "tandem-target"
  std::vector<std::string> flags;  // without --listen and --admin-listen
  int port = 0;                    // the same on each pod's address
  int admin_port = 0;
  absl::Duration pre_stop;           // between its end as an endpoint and its SIGTERM
  absl::Duration termination_grace;  // then SIGKILL; from the deletion on
};

// Thread safety: one thread, the one that made it (its process ends with that thread).
class Pod {
 public:
  Pod(PodSpec spec, std::string name, std::string address);

  // Probes and signals what is due. What happens is printed.
  void Tick();
  // Ends it in steps.
  void Delete();

  const std::string& name() const { return name_; }
  const std::string& address() const { return address_; }
  int admin_port() const { return spec_.admin_port; }
  bool deleted() const { return deleted_at_ != absl::InfiniteFuture(); }
  bool gone() const { return gone_; }
  // An endpoint of its service: probed ready, and not deleted.
  bool ready() const { return ready_since_ != absl::InfiniteFuture() && !deleted() && !gone_; }
  absl::Time ready_since() const { return ready_since_; }  // InfiniteFuture: it is not
  // What must not happen to a pod: it was killed, ended by itself, or ended with an error.
  const std::vector<std::string>& problems() const { return problems_; }
  std::string Output() const { return process_.Output(); }

 private:
  void ProbeIt();
  void EndIt();
  void Ended();
  void Tell(const std::string& what) const;

  const PodSpec spec_;
  const std::string name_;
  const std::string address_;
  Process process_;
  absl::Time next_probe_ = absl::InfinitePast();
  bool started_ = false;
  int not_ready_ = 0;  // probes in a row
  absl::Time ready_since_ = absl::InfiniteFuture();
  absl::Time deleted_at_ = absl::InfiniteFuture();
  bool told_ = false;  // SIGTERM was sent
  bool gone_ = false;
  std::vector<std::string> problems_;
};

// Seconds since the first call, for lines that tell what happens.
std::string SinceStart();
// Prints such a line. Thread-safe.
void Say(const std::string& what);

}  // namespace tandem::testing
