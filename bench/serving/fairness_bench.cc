// Two orchestrators share a target and a draft: one sends one request at a time, the other keeps 64
// running. How long a round of the lone one takes, alone and beside them, interleaved.
//
//   fairness_bench [alternations] [device|demo]      Default: 5, and both
//
// device: a pair whose pass takes time but no processor (8 ms + 0.02 ms per row; the draft a
// tenth), so that what is seen is the scheduling. demo: the demo pair, where 64 requests and one
// share this machine's cores as well.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/integration/cluster.h"
#include "tests/integration/fairness.h"
#include "tests/integration/front.h"
#include "tests/integration/models.h"

namespace tandem::testing {
namespace {

constexpr uint32_t kDraftTokens[] = {0, 2, 4};

void Measure(const char* name, InProcessCluster& cluster, FairnessOptions options) {
  Front front(FrontOptions(cluster));
  for (uint32_t draft_tokens : kDraftTokens) {
    options.lone.mutable_speculation()->set_fixed(draft_tokens);
    options.member.mutable_speculation()->set_fixed(draft_tokens);
    std::printf("%s, %u requests beside one, %u draft tokens\n", name, options.crowd, draft_tokens);
    std::printf("%s", ToString(MeasureFairness(cluster, front, options)).c_str());
    std::fflush(stdout);
  }
}

void MeasureDevice(int alternations) {
  InProcessCluster cluster(DeviceLikePair());
  FairnessOptions options;
  options.alternations = alternations;
  options.lone = GreedyRequest({0, 1, 2}, 150, 0);
  options.member = GreedyRequest({3, 4}, 1000, 0);
  Measure("a device of its own", cluster, options);
}

void MeasureDemo(int alternations) {
  InProcessCluster cluster(DemoOptions());
  FairnessOptions options;
  options.alternations = alternations;
  options.lone_requests = 2;
  options.lone = GreedyRequest(*cluster.tokenizer().Encode(TenPrompts()[0]), 150, 0);
  options.lone.mutable_stop()->set_ignore_eos(true);
  options.member = GreedyRequest(*cluster.tokenizer().Encode(TenPrompts()[4]), 400, 0);
  options.member.mutable_stop()->set_ignore_eos(true);
  Measure("the demo pair", cluster, options);
}

}  // namespace
}  // namespace tandem::testing

int main(int argc, char** argv) {
  const int alternations = argc > 1 ? std::atoi(argv[1]) : 5;
  const std::string which = argc > 2 ? argv[2] : "";
  if (alternations < 1 || (!which.empty() && which != "device" && which != "demo")) {
    std::fprintf(stderr, "usage: fairness_bench [alternations, at least 1] [device|demo]\n");
    return 2;
  }
  if (which != "demo") tandem::testing::MeasureDevice(alternations);
  if (which != "device") tandem::testing::MeasureDemo(alternations);
  return 0;
}
