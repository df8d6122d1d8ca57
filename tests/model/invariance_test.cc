// A row's logits are the same bits in any company, in any cut into passes, after any roll-back, on
// any number of threads and any instruction set.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "model/offload.h"
#include "tests/model/support.h"
#include "tests/support/allocations.h"

namespace tandem::model::testing {
namespace {

constexpr int kLength = 60;
constexpr cpu::WeightType kBf16Cache = cpu::WeightType::kBfloat16;

// A golden model, and what it is held as.
struct Held {
  std::string variant;
  Dtype dtype = Dtype::kAuto;
  cpu::WeightType cache = cpu::WeightType::kFloat32;
};

std::unique_ptr<Decoder> Model(const Held& held, int threads = 1,
                               const cpu::Kernels* kernels = nullptr) {
  DecoderOptions options;
  options.threads = threads;
  options.pool_tokens = 32 * 512;
  options.kernels = kernels;
  options.cache_type = held.cache;
  return MakeDecoder(GoldenDirectory(held.variant), options, held.dtype);
}

class Invariance : public ::testing::TestWithParam<Held> {};

TEST_P(Invariance, ChunksThreadsAndInstructionSets) {
  auto model = Model(GetParam());
  std::mt19937 random(1);
  auto tokens = RandomTokens(random, kLength, model->info().vocabulary_size);
  const auto wanted = AllLogits(*model, tokens, 1);
  for (int chunk : {2, 3, 5, 8, 16, 17, 31, 60}) {
    EXPECT_EQ(AllLogits(*model, tokens, chunk), wanted) << "chunks of " << chunk;
  }
  for (int threads : {2, 3}) {
    auto team = Model(GetParam(), threads);
    for (int chunk : {1, 7, 60}) {
      EXPECT_EQ(AllLogits(*team, tokens, chunk), wanted) << threads << " threads";
    }
  }
  for (const cpu::Kernels* kernels : cpu::SupportedKernels()) {
    auto other = Model(GetParam(), 1, kernels);
    EXPECT_EQ(AllLogits(*other, tokens, 9), wanted) << kernels->name;
  }
}

// Many sequences, each pass any mix of prefill, decode and verify parts with roll-backs after them.
TEST_P(Invariance, MixedBatchesAndRollBack) {
  auto model = Model(GetParam(), 2);
  std::mt19937 random(2);
  struct Sequence {
    std::vector<uint32_t> tokens;
    std::vector<std::vector<float>> wanted;
    std::unique_ptr<Cache> cache;
  };
  for (int count : {2, 5, 16}) {
    std::vector<Sequence> sequences(count);
    for (Sequence& sequence : sequences) {
      sequence.tokens = RandomTokens(random, kLength, model->info().vocabulary_size);
      sequence.wanted = AllLogits(*model, sequence.tokens, kLength);
      sequence.cache = *model->NewCache(kLength);
    }
    int compared = 0;
    for (int step = 0; step < 30; ++step) {
      std::vector<ForwardPart> parts;
      std::vector<const Sequence*> asked;
      for (Sequence& sequence : sequences) {
        const int at = sequence.cache->length();
        const int rows = std::min<int>(kLength - at, random() % 4 == 0 ? 12 : 1 + random() % 5);
        if (rows == 0) continue;
        parts.push_back({sequence.cache.get(), absl::MakeSpan(sequence.tokens).subspan(at, rows),
                         static_cast<int>(random() % (rows + 1))});
        asked.push_back(&sequence);
      }
      std::shuffle(parts.begin(), parts.end(), std::mt19937(step));
      auto logits = model->Forward(parts);
      ASSERT_TRUE(logits.ok()) << logits.status();
      int row = 0;
      for (const ForwardPart& part : parts) {
        auto sequence = std::find_if(sequences.begin(), sequences.end(), [&](const Sequence& s) {
          return s.cache.get() == part.cache;
        });
        const int rows = static_cast<int>(part.tokens.size());
        const int first = part.cache->length() - rows;
        for (int i = part.first_logits_row; i < rows; ++i, ++row, ++compared) {
          ASSERT_TRUE(SameBits(logits->row(row), sequence->wanted[first + i]));
        }
        // As after a verification: a part of the rows stands.
        part.cache->Truncate(first + 1 + static_cast<int>(random() % rows));
      }
      ASSERT_EQ(row, logits->rows);
    }
    EXPECT_GT(compared, 30 * count);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Variants, Invariance,
    ::testing::Values(Held{"llama2"}, Held{"gqa_odd"}, Held{"llama3"}, Held{"biases"}, Held{"bf16"},
                      Held{"fp16"}, Held{"gqa_odd", Dtype::kBfloat16},
                      Held{"biases", Dtype::kBfloat16}, Held{"biases", Dtype::kFloat16},
                      Held{"llama3", Dtype::kInt8}, Held{"gqa_odd", Dtype::kInt8},
                      Held{"biases", Dtype::kInt8}, Held{"gqa_odd", Dtype::kAuto, kBf16Cache},
                      Held{"llama3", Dtype::kInt8, kBf16Cache}, Held{"llama3", Dtype::kInt4},
                      Held{"gqa_odd", Dtype::kInt4}, Held{"biases", Dtype::kInt4},
                      Held{"llama3", Dtype::kInt8ByRow}, Held{"gqa_odd", Dtype::kInt8ByRow},
                      Held{"biases", Dtype::kInt8ByRow}),
    [](const auto& info) {
      const std::string name = info.param.variant + "_" + DtypeName(info.param.dtype) +
                               (info.param.cache == kBf16Cache ? "_cache_bf16" : "");
      return absl::StrReplaceAll(name, {{"-", "_"}});
    });

// Widening in registers is exact: half the memory, the same bits.
TEST(HeldAs, SixteenBitsOfTheFileOrFp32GiveTheSameBits) {
  std::mt19937 random(5);
  for (const char* variant : {"bf16", "fp16"}) {
    auto narrow = Model({variant, Dtype::kAuto});
    auto wide = Model({variant, Dtype::kFloat32});
    auto tokens = RandomTokens(random, kLength, wide->info().vocabulary_size);
    const auto wanted = AllLogits(*wide, tokens, 7);
    EXPECT_EQ(AllLogits(*narrow, tokens, 7), wanted) << variant;
    EXPECT_EQ(narrow->info().numerics_id, wide->info().numerics_id);
    for (const cpu::Kernels* kernels : cpu::SupportedKernels()) {
      auto other = Model({variant, Dtype::kAuto}, 1, kernels);
      EXPECT_EQ(AllLogits(*other, tokens, 5), wanted) << variant << " " << kernels->name;
    }
  }
}

// Rounding changes values, and so the id; what rounding leaves alone keeps it.
TEST(HeldAs, RoundedWeightsHaveAnIdOfTheirOwn) {
  std::mt19937 random(6);
  auto tokens = RandomTokens(random, 9, 64);
  for (const char* variant : {"llama3", "fp16"}) {
    auto file = Model({variant, Dtype::kAuto});
    auto rounded = Model({variant, Dtype::kBfloat16});
    auto int8 = Model({variant, Dtype::kInt8});
    EXPECT_NE(AllLogits(*rounded, tokens, 9), AllLogits(*file, tokens, 9)) << variant;
    EXPECT_NE(rounded->info().numerics_id, file->info().numerics_id) << variant;
    EXPECT_EQ(rounded->info().model_id, file->info().model_id) << variant;
    EXPECT_NE(int8->info().numerics_id, file->info().numerics_id) << variant;
    EXPECT_NE(int8->info().numerics_id, rounded->info().numerics_id) << variant;
    auto int4 = Model({variant, Dtype::kInt4});
    EXPECT_NE(AllLogits(*int4, tokens, 9), AllLogits(*int8, tokens, 9)) << variant;
    EXPECT_NE(int4->info().numerics_id, int8->info().numerics_id) << variant;
    EXPECT_EQ(int4->info().model_id, file->info().model_id) << variant;
  }
  auto file = Model({"bf16", Dtype::kAuto});
  auto same = Model({"bf16", Dtype::kBfloat16});
  EXPECT_EQ(AllLogits(*same, tokens, 9), AllLogits(*file, tokens, 9));
  EXPECT_EQ(same->info().numerics_id, file->info().numerics_id);
}

// What stays in the file is packed when it is used: the same bits, whatever stays there, of fused
// and mixed tensors, tied or not, on every path.
TEST(HeldAs, WeightsInTheFileGiveTheSameBits) {
  std::mt19937 random(8);
  for (const char* variant : {"llama2", "bf16", "fp16", "phi3", "biases", "tied", "gemma3"}) {
    SCOPED_TRACE(variant);
    auto packed = Model({variant});
    auto tokens = RandomTokens(random, 20, packed->info().vocabulary_size);
    const auto wanted = AllLogits(*packed, tokens, 20);
    const std::string directory = GoldenDirectory(variant);
    auto config = ReadConfig(directory);
    auto checkpoint =
        std::make_shared<const Checkpoint>(std::move(Checkpoint::Open(directory)).value());
    auto tensors = FindTensors(config->spec, config->family->tensors, *checkpoint);
    for (int first : {0, 1, config->spec.layers}) {
      Offload offload;
      offload.first_layer = first;
      offload.output = first != 1;
      offload.files = checkpoint;
      for (const cpu::Kernels* kernels : cpu::SupportedKernels()) {
        DecoderWeights weights(config->spec, *tensors, Dtype::kAuto, nullptr, offload);
        EXPECT_GT(weights.file_bytes(), 0);
        EXPECT_TRUE(weights.exact());
        DecoderOptions options;
        options.threads = 2;
        options.pool_tokens = 512;
        options.kernels = kernels;
        Decoder decoder(config->spec, std::move(weights), options, {});
        for (int chunk : {1, 7}) {
          EXPECT_EQ(AllLogits(decoder, tokens, chunk), wanted) << first << " " << kernels->name;
          decoder.DropPages();
        }
        EXPECT_EQ(decoder.info().numerics_id, packed->info().numerics_id);
      }
    }
  }
}

// Keys and values in bf16: near the bits of fp32, and an id of their own.
TEST(HeldAs, ACacheInBf16IsNearFp32) {
  std::mt19937 random(7);
  for (const char* variant : {"llama2", "gqa_odd", "llama3", "gemma3", "gpt_neox"}) {
    auto wide = Model({variant});
    auto narrow = Model({variant, Dtype::kAuto, kBf16Cache});
    auto tokens = RandomTokens(random, kLength, wide->info().vocabulary_size);
    const auto wanted = AllLogits(*wide, tokens, 7);
    const auto logits = AllLogits(*narrow, tokens, 7);
    EXPECT_NE(logits, wanted) << variant;
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_LT(RelativeDeviation(logits[i], wanted[i]), 4e-2) << variant << " row " << i;
    }
    EXPECT_EQ(narrow->info().numerics_id, wide->info().numerics_id + "/cache-bf16");
    EXPECT_EQ(narrow->info().model_id, wide->info().model_id);
  }
}

// Rounds of five rows and of one, rolled back: what the first ones needed is kept.
TEST(SteadySteps, AllocateNothing) {
  for (const Held& held : {Held{"llama2"}, Held{"gemma3"}, Held{"gqa_odd", Dtype::kInt8},
                           Held{"gqa_odd", Dtype::kInt4}, Held{"gqa_odd", Dtype::kInt8ByRow},
                           Held{"gpt2"}, Held{"llama3", Dtype::kAuto, kBf16Cache}}) {
    auto model = Model(held, /*threads=*/2);
    auto cache = *model->NewCache(kLength);
    const std::vector<uint32_t> tokens = {1, 5, 9, 3, 2};
    int64_t before = 0;
    for (int round = 0; round < 12; ++round) {
      if (round == 4) before = tandem::testing::Allocations();
      const size_t rows = round % 2 == 0 ? 5 : 1;
      const ForwardPart part{cache.get(), absl::MakeConstSpan(tokens).first(rows), 0};
      ASSERT_TRUE(model->Forward({&part, 1}).ok());
      if (rows == 5) cache->Truncate(cache->length() - 3);
    }
    EXPECT_EQ(tandem::testing::Allocations(), before) << held.variant;
  }
}

}  // namespace
}  // namespace tandem::model::testing
