// Batched drafting with the kernels that serve, on the demo draft.
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "model/load.h"
#include "tests/draft_service/passes/crowd.h"
#include "tests/support/paths.h"

namespace tandem::draft_service {
namespace {

TEST(DraftBatchWithKernels, ABlockAmongOthersIsTheBlockAlone) {
  auto model = model::Load({.directory = tandem::testing::SourcePath("demo/draft")});
  ASSERT_TRUE(model.ok()) << model.status();
  Options options;
  // Ids below 8, as the harness has them.
  options.drafters = {ModelDrafterFactory(**model, {.top_m = 8, .vocabulary_size = 8})};
  const Transcripts alone = RunAlone(options, 17, 8);
  std::mt19937 random(5);
  for (int pass_rows : {0, 5, 17, 64}) {
    options.pass_rows = pass_rows;
    Harness draft(options);
    const Transcripts together = RunTogether(draft, 17, 8, random);
    for (uint64_t i = 0; i < 17; ++i) {
      ASSERT_EQ(together.at(i), alone.at(i)) << "pass_rows " << pass_rows << ", sequence " << i;
    }
    const v1::Load load = draft.executor->load();
    EXPECT_GT(load.pass_sequences(), 2 * load.passes()) << "they were together";
  }
}

}  // namespace
}  // namespace tandem::draft_service
