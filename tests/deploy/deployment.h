// n pods of a service, and how they are replaced: what Kubernetes' Deployment, ReplicaSet and
// endpoints do.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/deploy/names.h"
#include "tests/deploy/pod.h"

namespace tandem::testing {

struct DeploymentSpec {
  std::string name;  // of the service, too
  PodSpec pod;
  int replicas = 2;
  int max_surge = 0;
  int max_unavailable = 0;
  absl::Duration min_ready;  // a pod counts when it was ready for so long
};

// Thread safety: one thread, the one that made it.
class Deployment {
 public:
  // `next_address` gives addresses that nobody had before.
  Deployment(DeploymentSpec spec, Names& names, std::function<std::string()> next_address);

  // A step towards what is wanted; call it again and again.
  void Tick();

  void Scale(int replicas) { replicas_ = replicas; }
  // All pods are replaced.
  void Roll() { ++generation_; }
  // Everybody is of the newest generation and available, as many as wanted, and all others are
  // gone.
  bool Settled() const;

  const std::string& name() const { return spec_.name; }
  int generation() const { return generation_; }
  // All there ever were, in order.
  const std::vector<std::unique_ptr<Pod>>& pods() const { return pods_; }

 private:
  bool IsOld(size_t pod) const { return generations_[pod] < generation_; }
  bool IsAvailable(const Pod& pod) const;
  int Available() const;
  void Start();
  void DeleteOld();
  void DeleteTooMany();
  void UpdateEndpoints();

  const DeploymentSpec spec_;
  Names& names_;
  const std::function<std::string()> next_address_;
  int replicas_;
  int generation_ = 1;
  std::vector<std::unique_ptr<Pod>> pods_;
  std::vector<int> generations_;  // one a pod
  std::vector<std::string> endpoints_;
};

}  // namespace tandem::testing
