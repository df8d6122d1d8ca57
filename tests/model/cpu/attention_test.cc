#include "model/cpu/attention.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace tandem::model::cpu {
namespace {

constexpr int kPositions = 530;  // three spans, the last partly filled

// One head's keys and values in spans that lie in the pool in another order.
class Fixture {
 public:
  explicit Fixture(int head_size)
      : shape_{head_size}, pool_(FloatBuffer(4 * shape_.head_floats())), random_(11) {
    head_.pool = pool_.floats();
    head_.span_floats = shape_.head_floats();
    head_.spans = spans_;
    for (int position = 0; position < kPositions; ++position) {
      keys_.push_back(Random());
      values_.push_back(Random());
      WriteKeyValue(shape_, head_, position, keys_.back().data(), values_.back().data());
    }
  }

  std::vector<float> Random() {
    std::normal_distribution<float> normal;
    std::vector<float> values(shape_.head_size);
    for (float& value : values) value = normal(random_);
    return values;
  }

  std::vector<float> Plain(const std::vector<float>& query, int visible) const {
    std::vector<double> weights(visible);
    double sum = 0;
    for (int i = 0; i < visible; ++i) {
      double score = 0;
      for (int d = 0; d < shape_.head_size; ++d) score += query[d] * keys_[i][d];
      sum += weights[i] = std::exp(score);
    }
    std::vector<float> out(shape_.head_size);
    for (int d = 0; d < shape_.head_size; ++d) {
      double value = 0;
      for (int i = 0; i < visible; ++i) value += weights[i] * values_[i][d];
      out[d] = static_cast<float>(value / sum);
    }
    return out;
  }

  std::vector<std::vector<float>> Run(const Kernels& kernels,
                                      const std::vector<std::vector<float>>& queries,
                                      const std::vector<int>& visible) {
    AttentionScratch scratch(shape_, kPositions);
    for (size_t i = 0; i < queries.size(); ++i) {
      std::memcpy(scratch.query(static_cast<int>(i)), queries[i].data(),
                  queries[i].size() * sizeof(float));
    }
    Attend(kernels, shape_, head_, visible.data(), static_cast<int>(queries.size()), scratch);
    std::vector<std::vector<float>> out;
    for (size_t i = 0; i < queries.size(); ++i) {
      const float* row = scratch.out(static_cast<int>(i));
      out.emplace_back(row, row + shape_.head_size);
    }
    return out;
  }

 private:
  const uint32_t spans_[3] = {2, 0, 3};
  AttentionShape shape_;
  Buffer pool_;
  std::mt19937 random_;
  HeadSpans head_;
  std::vector<std::vector<float>> keys_;
  std::vector<std::vector<float>> values_;
};

TEST(Attention, EqualsPlainArithmeticAndARowAloneOnEveryPath) {
  for (int head_size : {6, 40}) {
    Fixture fixture(head_size);
    for (int last : {8, 33, 256, 258, 512, 515, 530}) {
      std::vector<std::vector<float>> queries;
      std::vector<int> visible;
      for (int i = 0; i < 8; ++i) {
        queries.push_back(fixture.Random());
        for (float& value : queries.back()) value *= 0.3f;
        visible.push_back(last - 7 + i);
      }
      for (const Kernels* kernels : SupportedKernels()) {
        auto together = fixture.Run(*kernels, queries, visible);
        for (int i = 0; i < 8; ++i) {
          auto alone = fixture.Run(kPortableKernels, {queries[i]}, {visible[i]});
          ASSERT_EQ(together[i], alone[0]) << kernels->name << " " << visible[i];
          auto plain = fixture.Plain(queries[i], visible[i]);
          for (int d = 0; d < head_size; ++d) ASSERT_NEAR(together[i][d], plain[d], 1e-5);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem::model::cpu
