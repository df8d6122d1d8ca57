#include "tests/deploy/services.h"

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
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

double WorkDone(const PodView& pod) {
  const absl::StatusOr<Scrape> scrape = GetMetrics(pod.address, pod.admin_port);
  if (absl::IsUnavailable(scrape.status())) return 0;
  TANDEM_CHECK_OK(scrape);
  if (absl::StartsWith(pod.name, kTargets)) return scrape->Sum("tandem:target_steps_total");
  if (absl::StartsWith(pod.name, kDrafts)) return scrape->Sum("tandem:draft_blocks_total");
  return scrape->Sum("tandem:request_success_total");
}

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

std::map<std::string, absl::Duration> TimesToWork(const Controller& controller,
                                                  const std::string& deployment) {
  std::map<std::string, absl::Duration> times;
  std::set<std::string> waiting;
  for (const PodView& pod : controller.Pods(deployment)) {
    if (!pod.gone && !pod.deleted && WorkDone(pod) == 0) waiting.insert(pod.name);
  }
  for (const std::string& name : waiting) times[name] = absl::Minutes(1);
  WaitUntil(
      [&] {
        for (const PodView& pod : controller.ReadyPods(deployment)) {
          if (!waiting.contains(pod.name) || WorkDone(pod) == 0) continue;
          waiting.erase(pod.name);
          times[pod.name] = absl::Now() - pod.ready_since;
          Say(absl::StrCat(pod.name, " has work ", absl::FormatDuration(times[pod.name]),
                           " after its service's name resolved to it"));
        }
        return waiting.empty();
      },
      absl::Minutes(1));
  return times;
}

}  // namespace tandem::testing
