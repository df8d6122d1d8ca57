#include "tests/deploy/services.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/deploy/probe.h"
#include "tests/integration/models.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

DeploymentSpec Common(const std::string& name) {
  DeploymentSpec spec;
  spec.name = name;
  spec.pod.binary = name;
  spec.pod.port = FreePort();
  spec.pod.admin_port = FreePort();
  return spec;
}

}  // namespace

Services::Services(absl::Duration resolve_every)
    : targets(Common(kTargets)), drafts(Common(kDrafts)), orchestrators(Common(kOrchestrators)) {
  // As in k8s/base: longer than it takes until all know the new one.
  const absl::Duration min_ready = resolve_every + absl::Seconds(2);
  targets.max_unavailable = 1;
  targets.min_ready = min_ready;
  targets.pod.termination_grace = absl::Seconds(20);
  targets.pod.flags = {absl::StrCat("--model=", kDemoTarget), "--threads=1", "--most_sequences=32",
                       "--pool_tokens=32768", "--grace=10s"};

  drafts.max_surge = 1;
  drafts.min_ready = min_ready;
  drafts.pod.termination_grace = absl::Seconds(15);
  drafts.pod.flags = {absl::StrCat("--model=", kDemoDraft), "--threads=1", "--most_sequences=64",
                      "--pool_tokens=32768", "--grace=5s"};

  orchestrators.max_surge = 1;
  orchestrators.min_ready = min_ready;
  orchestrators.pod.pre_stop = absl::Seconds(2);
  orchestrators.pod.termination_grace = absl::Seconds(45);
  orchestrators.pod.flags = {absl::StrCat("--tokenizer=", kDemoTarget),
                             absl::StrCat("--target=", kTargets, ":", targets.pod.port),
                             absl::StrCat("--draft=", kDrafts, ":", drafts.pod.port),
                             absl::StrCat("--resolve_every=", absl::FormatDuration(resolve_every)),
                             "--target_patience=60s",
                             "--grace=30s"};
}

std::string Services::address() const {
  return absl::StrCat(kOrchestrators, ":", orchestrators.pod.port);
}

double WorkDone(const PodView& pod) {
  const absl::StatusOr<Scrape> scrape = GetMetrics(pod.address, pod.admin_port);
  if (!scrape.ok()) return 0;
  if (absl::StartsWith(pod.name, kTargets)) return scrape->Sum("tandem:target_steps_total");
  if (absl::StartsWith(pod.name, kDrafts)) return scrape->Sum("tandem:draft_blocks_total");
  return scrape->Sum("tandem:request_success_total");
}

bool AllWork(const Controller& controller, const std::string& deployment, absl::Duration patience) {
  return WaitUntil(
      [&] {
        const std::vector<PodView> pods = controller.ReadyPods(deployment);
        return !pods.empty() && std::all_of(pods.begin(), pods.end(),
                                            [](const PodView& pod) { return WorkDone(pod) > 0; });
      },
      patience);
}

}  // namespace tandem::testing
