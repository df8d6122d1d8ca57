// Two models that share the cores of one process, each computed by a thread of its own, as the two
// services' device threads do.
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "model/cpu/compute_pool.h"
#include "tests/model/support.h"

namespace tandem::model::testing {
namespace {

struct Work {
  std::string variant;
  std::vector<uint32_t> tokens;
  std::vector<std::vector<float>> wanted;
};

Work MakeWork(const std::string& variant, int seed) {
  Work work{variant, {}, {}};
  auto model = MakeDecoder(GoldenDirectory(variant), {.pool_tokens = 512});
  std::mt19937 random(seed);
  work.tokens = RandomTokens(random, 40, model->info().vocabulary_size);
  work.wanted = AllLogits(*model, work.tokens, 40);
  return work;
}

TEST(SharedCores, StepsSideBySideGiveTheBitsOfStepsAlone) {
  const std::vector<Work> works = {MakeWork("llama2", 1), MakeWork("gqa_odd", 2)};
  auto pool = std::make_shared<cpu::ComputePool>(3);
  std::vector<std::unique_ptr<Decoder>> models;
  for (const Work& work : works) {
    DecoderOptions options;
    options.threads = 3;
    options.pool_tokens = 512;
    options.compute = pool;
    models.push_back(MakeDecoder(GoldenDirectory(work.variant), options));
  }
  pool.reset();  // the models hold it
  std::vector<std::thread> threads;
  for (size_t i = 0; i < works.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 12; ++round) {
        const int chunk = 1 + (round * 5 + static_cast<int>(i)) % 20;
        EXPECT_EQ(AllLogits(*models[i], works[i].tokens, chunk), works[i].wanted)
            << works[i].variant << ", chunks of " << chunk;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// What is done beside passes: every piece once, whoever has the cores, and passes give what they
// gave.
TEST(SharedCores, PiecesOfWorkAreDoneOnceEach) {
  const Work work = MakeWork("llama2", 4);
  auto pool = std::make_shared<cpu::ComputePool>(2);
  auto model = MakeDecoder(GoldenDirectory(work.variant),
                           {.threads = 3, .pool_tokens = 512, .compute = pool});
  auto alone = MakeDecoder(GoldenDirectory(work.variant), {.threads = 3, .pool_tokens = 512});
  auto all_once = [](Decoder& decoder) {
    for (int count : {0, 1, 2, 50}) {
      std::vector<int> calls(count, 0);
      decoder.ForEach(count, [&calls](int i) { ++calls[i]; });
      EXPECT_EQ(calls, std::vector<int>(count, 1));
    }
  };
  for (int i = 0; i < 20; ++i) {
    all_once(*alone);
    all_once(*model);
    const cpu::ComputePool::Turn taken(pool.get(), 2);  // none is left: the caller does it all
    all_once(*model);
  }
  EXPECT_EQ(AllLogits(*model, work.tokens, 3), work.wanted);
  EXPECT_EQ(AllLogits(*alone, work.tokens, 3), work.wanted);
}

// A model that ends while the other goes on.
TEST(SharedCores, AModelMayEndBeforeTheOther) {
  const Work work = MakeWork("llama3", 3);
  auto pool = std::make_shared<cpu::ComputePool>(2);
  const DecoderOptions options{.threads = 2, .pool_tokens = 512, .compute = pool};
  auto stays = MakeDecoder(GoldenDirectory(work.variant), options);
  std::thread other([&] {
    for (int i = 0; i < 5; ++i) {
      auto brief = MakeDecoder(GoldenDirectory(work.variant), options);
      EXPECT_EQ(AllLogits(*brief, work.tokens, 8), work.wanted);
    }
  });
  for (int i = 0; i < 8; ++i) EXPECT_EQ(AllLogits(*stays, work.tokens, 3), work.wanted);
  other.join();
  EXPECT_EQ(pool->waiting(), 0);
}

}  // namespace
}  // namespace tandem::model::testing
