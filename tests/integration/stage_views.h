// Where the time of a request's rounds went, as each of the places says it that a user can look at.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/integration/cluster.h"
#include "tests/integration/requests.h"
#include "tests/support/spans.h"

namespace tandem::testing {

// By the stage's name: draft, network, slot, queue, device, own.
using StageTimes = std::map<std::string, absl::Duration>;

// Of a span of a round.
StageTimes OfSpan(const FinishedSpan& span);
// "device 20.1ms, own 1ms, …".
std::string Text(const StageTimes& times);

struct StageViews {
  Reply reply;
  // Of an average round.
  StageTimes trace;
  StageTimes metrics;
  StageTimes timing;   // Last
  StageTimes records;  // the client's own sum of them, as its time line has it
  // Of a usual one: of each stage the median over the rounds that had a draft.
  StageTimes usual;
  std::vector<FinishedSpan> spans;  // of the request's trace
};

// Sends a greedy request to a cluster that traces all, and looks everywhere.
StageViews Watch(InProcessCluster& cluster);

}  // namespace tandem::testing
