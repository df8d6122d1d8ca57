// What LibTorch makes of checkpoints whose weights are int8 already.
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/int8_checkpoint.h"
#include "tests/model/support.h"
#include "tests/torch/step_support.h"

namespace tandem::torch {
namespace {

using model::Dtype;
using model::LanguageModel;
using model::testing::AllLogits;
using model::testing::RandomTokens;
using ::testing::HasSubstr;
using ::testing::Not;

class StepInt8Test : public ::testing::Test, protected model::testing::Int8Checkpoint {
 protected:
  static std::vector<uint32_t> Text(const LanguageModel& model) {
    std::mt19937 random(2);
    return RandomTokens(random, 24, model.info().vocabulary_size);
  }
};

// Integers and scales that LibTorch's --dtype=int8 finds again in the numbers: the same bits, in
// every product.
TEST_F(StepInt8Test, IsWhatDtypeInt8MakesOfTheSameNumbers) {
  // The output of "biases" is its embedding, which is not int8 in the file.
  for (const auto& [variant, dtype] :
       {std::pair("llama2", Dtype::kAuto), std::pair("biases", Dtype::kInt8)}) {
    ASSERT_NO_FATAL_FAILURE(Make(variant, Levels::kOurs));
    auto filed = LoadTorch(int8_.path(), {.dtype = dtype});
    auto rounded = LoadTorch(floats_.path(), {ComputeType::kInt8});
    ASSERT_TRUE(filed != nullptr && rounded != nullptr);
    const std::vector<uint32_t> text = Text(*filed);
    EXPECT_TRUE(AllLogits(*filed, text, 5) == AllLogits(*rounded, text, 5)) << variant;
  }
}

// What is in floating point in the file stays so, unless it is asked to be int8; fused and split
// matrices. Where fp32 differs in its last place, a whole number may be the next one.
TEST_F(StepInt8Test, IsNearTheDecoder) {
  for (const char* variant : {"llama2", "phi3", "biases", "tied"}) {
    ASSERT_NO_FATAL_FAILURE(Make(variant, Levels::kLibrary));
    for (const Dtype dtype : {Dtype::kAuto, Dtype::kInt8}) {
      auto torch = LoadTorch(int8_.path(), {.dtype = dtype});
      ASSERT_NE(torch, nullptr);
      const std::string id = torch->info().numerics_id;
      if (dtype == Dtype::kAuto) {
        EXPECT_THAT(id, HasSubstr("/int8/others-fp32/"));
      } else {
        EXPECT_THAT(id, Not(HasSubstr("others")));
      }
      // LibTorch's int8 is by row.
      const bool filed = dtype == Dtype::kAuto;
      auto decoder = LoadDecoder(int8_.path(), filed ? Dtype::kAuto : Dtype::kInt8ByRow);
      auto other = LoadDecoder(int8_.path(), filed ? Dtype::kInt8ByRow : Dtype::kAuto);
      const std::vector<uint32_t> text = Text(*torch);
      const double deviation = DeviationFromDecoder(*torch, *decoder, text);
      EXPECT_LT(deviation, 0.01) << variant;
      // Control: the output in the other type is further away.
      EXPECT_GT(DeviationFromDecoder(*torch, *other, text), 2 * deviation) << variant;
    }
  }
}

}  // namespace
}  // namespace tandem::torch
