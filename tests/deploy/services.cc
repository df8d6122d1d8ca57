#include "tests/deploy/services.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
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
  targets.pod.flags = {absl::StrCat("--model=", DemoTarget()), "--threads=1", "--max-sequences=32",
                       "--pool-tokens=32768", "--grace=10s"};

  drafts.max_surge = 1;
  drafts.min_ready = min_ready;
  drafts.pod.termination_grace = absl::Seconds(15);
  drafts.pod.flags = {absl::StrCat("--model=", DemoDraft()), "--threads=1", "--max-sequences=64",
                      "--pool-tokens=32768", "--grace=5s"};

  orchestrators.max_surge = 1;
  orchestrators.min_ready = min_ready;
  orchestrators.pod.termination_grace = absl::Seconds(45);
  orchestrators.pod.flags = {absl::StrCat("--tokenizer=", DemoTarget()),
                             absl::StrCat("--target=", kTargets, ":", targets.pod.port),
                             absl::StrCat("--draft=", kDrafts, ":", drafts.pod.port),
                             absl::StrCat("--resolve-every=", absl::FormatDuration(resolve_every)),
                             "--target-patience=60s",
                             "--drain-delay=2s",
                             "--grace=30s"};
}

std::string Services::address() const {
  return absl::StrCat(kOrchestrators, ":", orchestrators.pod.port);
}

namespace {

// How much of the service's work this pod has done: Steps of a target, blocks of a draft, requests
// that ended OK of an orchestrator. 0 too where it does not answer.
double WorkDone(const PodView& pod) {
  const absl::StatusOr<Scrape> scrape = GetMetrics(pod.address, pod.admin_port);
  if (absl::IsUnavailable(scrape.status())) return 0;
  TANDEM_CHECK_OK(scrape);
  if (absl::StartsWith(pod.name, kTargets)) return scrape->Sum("tandem:target_steps_total");
  if (absl::StartsWith(pod.name, kDrafts)) return scrape->Sum("tandem:draft_blocks_total");
  return scrape->Sum("tandem:request_success_total");
}

}  // namespace

bool AllWork(const Controller& controller, const std::string& deployment, absl::Duration patience) {
  std::string work;
  const bool all = WaitUntil(
      [&] {
        bool any = false;
        bool idle = false;
        work.clear();
        for (const PodView& pod : controller.ReadyPods(deployment)) {
          const double done = WorkDone(pod);
          absl::StrAppend(&work, " ", pod.name, ": ", done);
          any = true;
          idle = idle || done == 0;
        }
        return any && !idle;
      },
      patience);
  Say(absl::StrCat("work done by", work));
  return all;
}

}  // namespace tandem::testing
