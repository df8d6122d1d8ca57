// The CPU's engine: what it gives does not depend on the threads that judge, nor on what its
// sequences held before.
#include "target_service/engine/cpu/cpu_engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "common/base/check.h"
#include "tests/support/table_model.h"

namespace tandem::target_service {
namespace {

using speculation::SequenceSettings;
using testing::TableModel;

constexpr uint32_t kVocabulary = 64;

// A table whose model has four threads.
class ThreadedModel final : public model::LanguageModel {
 public:
  const model::ModelInfo& info() const override { return table_.info(); }
  absl::StatusOr<std::unique_ptr<model::Cache>> NewCache(int max_length) override {
    return table_.NewCache(max_length);
  }
  absl::StatusOr<model::Logits> Forward(absl::Span<const model::ForwardPart> parts) override {
    return table_.Forward(parts);
  }
  int max_rows() const override { return table_.max_rows(); }
  void ForEach(int count, absl::FunctionRef<void(int i)> work) override {
    std::atomic<int> next{0};
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&next, count, work] {
        for (int i = next++; i < count; i = next++) work(i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  TableModel table_{{.vocabulary_size = kVocabulary}};
};

std::unique_ptr<CpuEngine> MakeEngine(std::unique_ptr<model::LanguageModel> model) {
  auto engine = CpuEngine::Create({}, std::move(model));
  TANDEM_CHECK_OK(engine);
  return *std::move(engine);
}
std::unique_ptr<model::LanguageModel> OneThread() {
  return std::make_unique<TableModel>(testing::TableModelOptions{.vocabulary_size = kVocabulary});
}

SequenceSettings SettingsOf(size_t i) {
  using acceptance::Rule;
  static constexpr Rule kRules[] = {Rule::kSpeculative, Rule::kBlock, Rule::kCoupled,
                                    Rule::kLenient, Rule::kGreedy};
  SequenceSettings settings;
  settings.rule = kRules[i % 5];
  settings.sampling.temperature = settings.rule == Rule::kGreedy ? 0 : 0.8;
  if (i % 2 == 0) settings.sampling.frequency_penalty = 0.7;
  if (i % 3 == 0) settings.sampling.repetition_penalty = 1.4;
  if (settings.rule == Rule::kLenient) settings.leniency = 0.5;
  settings.seed = i;
  settings.prompt_tokens = 3;
  settings.logprobs = sampling::LogprobOptions{3, i % 4 == 0};
  return settings;
}

std::vector<uint32_t> Tokens(std::mt19937& random, size_t size) {
  std::vector<uint32_t> tokens(size);
  for (uint32_t& token : tokens) token = random() % kVocabulary;
  return tokens;
}

bool Same(const std::vector<sampling::NodeLogprobs>& a,
          const std::vector<sampling::NodeLogprobs>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.candidate == y.candidate && x.next_token == y.next_token && x.top == y.top;
  });
}

// Bit for bit.
void ExpectSame(const PartResult& a, const PartResult& b) {
  ASSERT_TRUE(a.status.ok() && b.status.ok()) << a.status << b.status;
  ASSERT_EQ(a.entries.size(), b.entries.size());
  for (size_t i = 0; i < a.entries.size(); ++i) {
    EXPECT_EQ(a.entries[i].accept_probability, b.entries[i].accept_probability);
    EXPECT_EQ(a.entries[i].next_token, b.entries[i].next_token);
  }
  EXPECT_TRUE(Same(a.logprobs, b.logprobs));
  EXPECT_TRUE(Same(a.prompt_logprobs, b.prompt_logprobs));
}

TEST(CpuEngine, OffersAllRulesAndLogprobs) {
  const auto engine = MakeEngine(OneThread());
  EXPECT_EQ(engine->info().rules.size(), 5u);
  EXPECT_TRUE(engine->info().logprobs);
  EXPECT_EQ(engine->info().max_passes_in_flight, 1);
  EXPECT_TRUE(engine->info().row_buckets.empty());
  EXPECT_EQ(engine->info().max_rows, 512);
}

// Rounds of a dozen sequences, with prompts that are told, under every rule.
TEST(CpuEngine, ThreadsChangeNothing) {
  const auto one = MakeEngine(OneThread());
  const auto many = MakeEngine(std::make_unique<ThreadedModel>());
  constexpr size_t kSequences = 12;
  std::mt19937 random(4);
  struct Pair {
    std::unique_ptr<EngineSequence> one;
    std::unique_ptr<EngineSequence> many;
  };
  std::vector<Pair> sequences;
  for (size_t i = 0; i < kSequences; ++i) {
    sequences.push_back({*one->Open(250), *many->Open(250)});
  }
  for (int round = 0; round < 20; ++round) {
    std::vector<std::vector<uint32_t>> tokens;
    std::vector<speculation::CandidateTree> blocks;
    for (size_t i = 0; i < kSequences; ++i) {
      tokens.push_back(Tokens(random, 3 + (round + i) % 5));
      blocks.push_back({.tokens = {tokens[i].begin() + 2, tokens[i].end()}});
    }
    std::vector<PassPart> parts;
    for (size_t i = 0; i < kSequences; ++i) {
      PassPart part;
      part.settings = std::make_shared<const SequenceSettings>(SettingsOf(i));
      part.start = round * 2;
      part.tokens = tokens[i];
      part.block = &blocks[i];
      part.prompt_targets = absl::MakeConstSpan(tokens[i]).subspan(1, 1);
      parts.push_back(part);
    }
    auto run = [&parts, &sequences](CpuEngine& engine, auto of) {
      for (size_t i = 0; i < kSequences; ++i) parts[i].sequence = of(sequences[i]);
      engine.Launch(parts);
      return engine.Await();
    };
    const PassResult alone = run(*one, [](Pair& pair) { return pair.one.get(); });
    const PassResult together = run(*many, [](Pair& pair) { return pair.many.get(); });
    ASSERT_TRUE(alone.status.ok() && together.status.ok());
    for (size_t i = 0; i < kSequences; ++i) {
      EXPECT_EQ(alone.parts[i].entries.size(), tokens[i].size() - 1);
      EXPECT_EQ(alone.parts[i].prompt_logprobs.size(), 1u);
      ExpectSame(alone.parts[i], together.parts[i]);
    }
  }
}

// Other tokens come into the middle in a part that nobody judges, and other settings with the
// next one: what penalties count is what is held then.
TEST(CpuEngine, TheHistoryIsThatOfWhatIsHeld) {
  std::mt19937 random(9);
  SequenceSettings looks_back = SettingsOf(0);
  looks_back.sampling.frequency_penalty = 1.5;
  SequenceSettings later_prompt = looks_back;
  later_prompt.prompt_tokens = 20;
  SequenceSettings plain = SettingsOf(1);
  const std::vector<uint32_t> first = Tokens(random, 40);
  const std::vector<uint32_t> second = Tokens(random, 20);
  const std::vector<uint32_t> last = Tokens(random, 6);
  const speculation::CandidateTree of_first = {.tokens = {first.end() - 5, first.end()}};
  const speculation::CandidateTree of_last = {.tokens = {last.end() - 4, last.end()}};
  auto part = [](EngineSequence* sequence, const SequenceSettings& settings, int start,
                 absl::Span<const uint32_t> tokens, const speculation::CandidateTree* block) {
    PassPart part;
    part.sequence = sequence;
    part.settings = std::make_shared<const SequenceSettings>(settings);
    part.start = start;
    part.tokens = tokens;
    part.block = block;
    return part;
  };
  for (const SequenceSettings& before : {looks_back, later_prompt, plain}) {
    const auto engine = MakeEngine(OneThread());
    auto run = [&engine](const PassPart& only) {
      engine->Launch({only});
      PassResult result = engine->Await();
      EXPECT_TRUE(result.status.ok());
      return std::move(result.parts[0]);
    };
    const auto used = *engine->Open(250);
    run(part(used.get(), before, 0, first, &of_first));
    run(part(used.get(), before, 10, second, nullptr));
    const PartResult result = run(part(used.get(), looks_back, 30, last, &of_last));

    const auto fresh = *engine->Open(250);
    std::vector<uint32_t> text(first.begin(), first.begin() + 10);
    text.insert(text.end(), second.begin(), second.end());
    text.insert(text.end(), last.begin(), last.end());
    const PartResult expected = run(part(fresh.get(), looks_back, 0, text, &of_last));
    ExpectSame(result, expected);

    // A history of what was held before would show.
    std::copy(first.begin() + 10, first.begin() + 30, text.begin() + 10);
    const auto stale = *engine->Open(250);
    const PartResult wrong = run(part(stale.get(), looks_back, 0, text, &of_last));
    EXPECT_FALSE(Same(wrong.logprobs, expected.logprobs));
  }
}

// With penalties and log probabilities; over several rounds, so that what is held counts, too.
TEST(CpuEngine, AChainSpelledOutAsATreeIsTheChainToTheBit) {
  using acceptance::Rule;
  const auto engine = MakeEngine(OneThread());
  EXPECT_TRUE(engine->info().trees);
  std::mt19937 random(12);
  size_t stood = 0;
  for (const Rule rule : {Rule::kGreedy, Rule::kCoupled}) {
    SequenceSettings settings = SettingsOf(0);
    settings.rule = rule;
    settings.sampling.temperature = rule == Rule::kGreedy ? 0 : 0.8;
    const auto chain = *engine->Open(250);
    const auto tree = *engine->Open(250);
    std::vector<uint32_t> feed = Tokens(random, 3);
    int start = 0;
    for (int round = 0; round < 20; ++round) {
      const auto run = [&](EngineSequence& sequence, const speculation::CandidateTree& block) {
        std::vector<uint32_t> tokens = feed;
        tokens.insert(tokens.end(), block.tokens.begin(), block.tokens.end());
        PassPart part;
        part.sequence = &sequence;
        part.settings = std::make_shared<const SequenceSettings>(settings);
        part.start = start;
        part.tokens = tokens;
        part.block = &block;
        engine->Launch({part});
        PassResult result = engine->Await();
        EXPECT_TRUE(result.status.ok()) << result.status;
        return std::move(result.parts[0]);
      };
      speculation::CandidateTree block{.tokens = Tokens(random, 4)};
      // One that stands for sure is asked of the chain itself.
      block.tokens[0] = *run(*chain, {.tokens = {}}).entries[0].next_token;
      const PartResult of_chain = run(*chain, block);
      block.parents = {0, 1, 2, 3};
      const PartResult of_tree = run(*tree, block);
      ExpectSame(of_chain, of_tree);
      ASSERT_GE(of_tree.path.size(), 1u);
      stood += of_tree.path.size();
      start += static_cast<int>(feed.size() + of_tree.path.size());
      feed = {*of_tree.entries[of_tree.path.size()].next_token};
    }
  }
  EXPECT_GE(stood, 40u);
}

TEST(CpuEngine, AVocabularyAboveTheModelsIsRefused) {
  CpuEngineOptions options;
  options.vocabulary_size = kVocabulary + 1;
  EXPECT_EQ(CpuEngine::Create(options, OneThread()).status().code(),
            absl::StatusCode::kInvalidArgument);
  options.vocabulary_size = kVocabulary - 1;
  EXPECT_EQ((*CpuEngine::Create(options, OneThread()))->info().model.vocabulary_size,
            kVocabulary - 1);
}

}  // namespace
}  // namespace tandem::target_service
