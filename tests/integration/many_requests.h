// The demo pair with its caches counted, and requests of many kinds for it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/counted_model.h"
#include "tests/integration/requests.h"
#include "tests/support/wait.h"

namespace tandem::testing {

// The demo pair, with its caches counted.
struct CountedCluster {
  explicit CountedCluster(ClusterOptions options = DemoOptions()) {
    options.target_model =
        std::make_unique<CountedModel>(std::move(options.target_model), target_caches);
    options.draft_model =
        std::make_unique<CountedModel>(std::move(options.draft_model), draft_caches);
    cluster.emplace(std::move(options));
    // What the services measured of their models at the start does not count.
    for (CacheCounts* counts : {&target_caches, &draft_caches}) {
      TANDEM_CHECK(WaitUntil([&] { return counts->live == 0; }));
      counts->max_live = 0;
      counts->made = 0;
    }
  }

  // Everything that requests held is given back; waits for it, since the services learn of a
  // stream's end after the client does.
  void ExpectNothingHeld() {
    EXPECT_TRUE(cluster->AllFreed());
    EXPECT_TRUE(WaitUntil([&] { return cluster->orchestrator().active_requests() == 0; }));
    EXPECT_EQ(cluster->orchestrator().waiting_requests(), 0u);
    EXPECT_TRUE(WaitUntil([&] { return target_caches.live == 0 && draft_caches.live == 0; }));
    EXPECT_EQ(target_caches.taken_pages, 0);
    EXPECT_EQ(draft_caches.taken_pages, 0);
  }

  CacheCounts target_caches;
  CacheCounts draft_caches;
  std::optional<InProcessCluster> cluster;
};

// Prompts of different beginnings and lengths, 16 to 48 tokens each, and drafts of all kinds.
inline std::vector<v1::GenerateRequest> MixedRequests(const tokenizer::Tokenizer& tokenizer,
                                                      size_t count) {
  const std::vector<std::string> prompts = TenPrompts();
  std::vector<v1::GenerateRequest> requests;
  for (size_t i = 0; i < count; ++i) {
    auto ids = tokenizer.Encode(prompts[i % prompts.size()]);
    TANDEM_CHECK_OK(ids);
    ids->resize(ids->size() - (i / prompts.size()) % 3);  // another prompt
    const uint32_t draft_tokens[] = {0, 0, 2, 4};
    v1::GenerateRequest request =
        GreedyRequest(*ids, static_cast<uint32_t>(16 + 11 * i % 33), draft_tokens[i % 4]);
    if (i % 4 == 0) request.mutable_speculation()->set_auto_(true);
    requests.push_back(std::move(request));
  }
  return requests;
}

inline std::vector<uint32_t> PromptOf(const v1::GenerateRequest& request) {
  return {request.ids().ids().begin(), request.ids().ids().end()};
}

}  // namespace tandem::testing
