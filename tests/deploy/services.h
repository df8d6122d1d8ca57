// The three services as k8s/base deploys them, on the demo models, with all times shorter.
#pragma once

#include <string>

#include "tests/deploy/controller.h"
#include "tests/deploy/deployment.h"

namespace tandem::testing {

inline constexpr char kTargets[] = "tandem-target";
inline constexpr char kDrafts[] = "tandem-draft";
inline constexpr char kOrchestrators[] = "tandem-orchestrator";

// Two replicas each. Change what you like before a Controller gets them.
struct Services {
  // `resolve_every`: of the orchestrators; a pod counts somewhat later than that.
  explicit Services(absl::Duration resolve_every);

  DeploymentSpec targets;
  DeploymentSpec drafts;
  DeploymentSpec orchestrators;

  // What clients are given.
  std::string address() const;
};

// Waits until every ready pod of a deployment has done some work; false: it did not come to that.
bool AllWork(const Controller& controller, const std::string& deployment,
             absl::Duration patience = absl::Seconds(60));

}  // namespace tandem::testing
