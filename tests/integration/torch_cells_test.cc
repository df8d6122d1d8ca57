// Targets and drafts that LibTorch computes, in the services: texts against the target's
// distribution, and a stream that is cut. The models are tiny Llamas, whose distributions the
// decoder of model/ tells.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/acceptance/rule.h"
#include "common/base/check.h"
#include "common/sampling/token_history.h"
#include "gtest/gtest.h"
#include "orchestrator/accept/decide_function.h"
#include "tests/integration/exactness_cells.h"
#include "tests/netproxy/netproxy.h"
#include "tests/support/paths.h"
#include "torch/load.h"

namespace tandem::testing {
namespace {

std::unique_ptr<model::LanguageModel> LoadTorch(const std::string& directory,
                                                model::Dtype dtype = model::Dtype::kAuto) {
  torch::LoadOptions options;
  options.model.directory = directory;
  options.model.dtype = dtype;
  options.model.pool_tokens = 300 * torch::kPageTokens;  // a page is the least that a text takes
  options.library = BuildPath("lib/libtandem_torch.so");
  auto model = torch::Load(options);
  TANDEM_CHECK_OK(model);
  return *std::move(model);
}

// The target's p by the decoder of model/, after a prompt of so many tokens. Not thread-safe.
TargetDistribution DecoderDistribution(const std::string& directory, uint32_t vocabulary,
                                       const sampling::SamplingParameters& sampling,
                                       size_t prompt_tokens) {
  std::shared_ptr<model::LanguageModel> decoder = LoadModel(directory, 1);
  auto rows = std::make_shared<std::map<std::vector<uint32_t>, sampling::Distribution>>();
  return [=](absl::Span<const uint32_t> context) {
    auto [row, is_new] = rows->try_emplace(std::vector<uint32_t>(context.begin(), context.end()));
    if (!is_new) return row->second;
    auto cache = *decoder->NewCache(static_cast<int>(context.size()));
    const int before = static_cast<int>(context.size()) - 1;
    const auto logits = decoder->Forward({{cache.get(), context, before}});
    TANDEM_CHECK_OK(logits);
    sampling::TokenHistory history(static_cast<uint32_t>(prompt_tokens));
    history.Append(context);
    row->second = sampling::MakeDistribution(logits->row(0), vocabulary, sampling, history);
    return row->second;
  };
}

Judgement MeasureCell(const ExactnessCell& cell, int count,
                      orchestrator::DecideFunction decide = {}) {
  const uint32_t vocabulary = cell.pair.vocabulary;
  const ScratchFolder folder;
  const std::string target = folder.path() + "/target";
  const std::string draft = folder.path() + "/draft";
  WriteTinyLlama(target, vocabulary, 1);
  // Of the seeds 2 to 8 the one whose draft agrees most with the target where the two agree least:
  // at least 0.45 accepted tokens per text in every cell. With seed 2 it was 0.09 in cell Cold, so
  // that an error in what follows an accepted token would hardly have shown.
  WriteTinyLlama(draft, vocabulary, 8);
  ClusterOptions options = TableOptions(cell.pair);
  options.target_model = LoadTorch(target);
  options.draft_model = LoadTorch(draft);
  options.decide = std::move(decide);
  InProcessCluster cluster(std::move(options));
  const TextsOptions texts = TextsOf(cell, count);
  Judgement judgement =
      MeasureTexts(cluster, texts, vocabulary,
                   DecoderDistribution(target, vocabulary, texts.sampling, texts.prompt.size()));
  EXPECT_TRUE(cluster.AllFreed());
  return judgement;
}

void ExpectTextsFollowTheTarget(const ExactnessCell& cell, int count) {
  SCOPED_TRACE(cell.name);
  const Judgement judgement = MeasureCell(cell, count);
  SCOPED_TRACE(judgement.ToString());
  EXPECT_TRUE(judgement.joint.Passes());
  EXPECT_TRUE(judgement.rest.Passes());
  EXPECT_GT(judgement.accepted, judgement.texts / 10);
  EXPECT_GT(judgement.rejected_rounds, judgement.texts / 10);
}

class TorchCellsFullTest : public ::testing::TestWithParam<ExactnessCell> {};

TEST_P(TorchCellsFullTest, FollowsTheTarget) {
  ExpectTextsFollowTheTarget(GetParam(), TextsOfACell(20'000));
}

INSTANTIATE_TEST_SUITE_P(Cells, TorchCellsFullTest, ::testing::ValuesIn(ExactnessCells()),
                         [](const auto& info) { return std::string(info.param.name); });

// Each rule once; truncation, lists, penalties and ends among them.
constexpr const char* kSomeCells[] = {"PlainOne", "TopPWarmDraft", "MixColdDraft"};

TEST(TorchCellsTest, SomeFollowTheTarget) {
  for (const char* name : kSomeCells) ExpectTextsFollowTheTarget(ExactnessCellNamed(name), 600);
}

// One in five of the draft tokens that should be rejected stands.
acceptance::Decision DecideTooKindly(acceptance::Rule rule,
                                     absl::Span<const acceptance::Entry> entries,
                                     absl::Span<const double> uniforms) {
  std::vector<acceptance::Entry> wrong(entries.begin(), entries.end());
  for (acceptance::Entry& entry : wrong) {
    if (!entry.next_token.has_value()) continue;  // a block cannot end here
    entry.accept_probability = std::max(entry.accept_probability, 0.2);
  }
  return acceptance::Decide(rule, wrong, uniforms);
}

TEST(TorchCellsTest, ControlCandidatesThatStandWronglyAreCaught) {
  for (const char* name : kSomeCells) {
    const Judgement judgement = MeasureCell(ExactnessCellNamed(name), 2400, DecideTooKindly);
    SCOPED_TRACE(name);
    SCOPED_TRACE(judgement.ToString());
    EXPECT_TRUE(judgement.joint.ControlIsCaught() || judgement.rest.ControlIsCaught());
  }
}

// The stream to the target breaks in the middle: what comes after it is what would have come.
void ExpectACutIsNotSeen(model::Dtype dtype, model::LanguageModel& alone) {
  std::unique_ptr<netproxy::NetProxy> proxy;  // outlives the cluster's channels
  ClusterOptions options = DemoOptions();
  options.target_model = LoadTorch(DemoTarget(), dtype);
  options.target_proxy = [&](const std::string& address) {
    proxy = *netproxy::NetProxy::Start(address);
    return proxy->address();
  };
  InProcessCluster cluster(std::move(options));
  const std::vector<uint32_t> prompt = *cluster.tokenizer().Encode(TenPrompts()[3]);
  bool cut = false;
  const Reply reply =
      Send(cluster.channel(), GreedyRequest(prompt, 80, 4), [&](const Reply& so_far) {
        if (cut || so_far.ids.size() < 20) return;
        cut = true;
        proxy->Reset();
      });
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(reply.ids, GreedyAlone(alone, prompt, 80, cluster.tokenizer().vocabulary_size()));
  EXPECT_EQ(reply.record().target_replays(), 1u);
  EXPECT_GT(reply.record().accepted_tokens(), 0u);
  EXPECT_TRUE(cluster.AllFreed());
}

TEST(TorchCellsTest, ACutStreamIsNotSeen) {
  ExpectACutIsNotSeen(model::Dtype::kAuto, *LoadModel(DemoTarget()));
}

TEST(TorchCutFullTest, WithInt8NeitherIsIt) {
  ExpectACutIsNotSeen(model::Dtype::kInt8, *LoadTorch(DemoTarget(), model::Dtype::kInt8));
}

// As FullGridTest does on the CPU engine.
TEST(TorchGridFullTest, GreedyEqualityOnTenPrompts) {
  ClusterOptions options = DemoOptions();
  options.target_model = LoadTorch(DemoTarget());
  InProcessCluster cluster(std::move(options));
  const auto alone = LoadModel(DemoTarget());
  std::vector<v1::GenerateRequest> requests;
  std::vector<std::vector<uint32_t>> expected;
  for (const std::string& text : TenPrompts()) {
    const std::vector<uint32_t> prompt = *cluster.tokenizer().Encode(text);
    const auto ids = GreedyAlone(*alone, prompt, 128, cluster.tokenizer().vocabulary_size());
    for (uint32_t draft_tokens : {0, 1, 2, 4, 8}) {
      for (const std::string drafter : {"model", "prompt-lookup", "random"}) {
        requests.push_back(GreedyRequest(prompt, 128, draft_tokens, drafter));
        expected.push_back(ids);
      }
    }
  }
  const std::vector<Reply> replies = SendAll(cluster.channel(), requests, 32);
  for (size_t i = 0; i < replies.size(); ++i) {
    ASSERT_TRUE(replies[i].status.ok()) << replies[i].status;
    EXPECT_EQ(replies[i].ids, expected[i]) << requests[i].speculation().DebugString();
  }
}

}  // namespace
}  // namespace tandem::testing
