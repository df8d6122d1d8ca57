#include "model/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "model/cpu/half.h"

namespace tandem::model::cpu {
namespace {

constexpr int kPositions = 530;  // three pages, the last partly filled

// One head's keys and values in pages that lie in the pool in another order.
class Fixture {
 public:
  explicit Fixture(int head_size, WeightType type = WeightType::kFloat32)
      : shape_{head_size, type}, pool_(FloatBuffer(4 * shape_.head_floats())), random_(11) {
    head_.pool = pool_.floats();
    head_.page_floats = shape_.head_floats();
    head_.pages = pages_;
    for (int position = 0; position < kPositions; ++position) {
      keys_.push_back(Random());
      values_.push_back(Random());
      WriteKeyValue(shape_, head_, position, keys_.back().data(), values_.back().data());
      if (type != WeightType::kBfloat16) continue;
      for (float& value : keys_.back()) value = FromBfloat16(ToBfloat16(value));
      for (float& value : values_.back()) value = FromBfloat16(ToBfloat16(value));
    }
  }

  std::vector<float> Random() {
    std::normal_distribution<float> normal;
    std::vector<float> values(shape_.head_size);
    for (float& value : values) value = normal(random_);
    return values;
  }

  std::vector<float> Plain(const std::vector<float>& query, int visible, int first = 0) const {
    std::vector<double> weights(visible);
    double sum = 0;
    for (int i = first; i < visible; ++i) {
      double score = 0;
      for (int d = 0; d < shape_.head_size; ++d) score += query[d] * keys_[i][d];
      sum += weights[i] = std::exp(score);
    }
    std::vector<float> out(shape_.head_size);
    for (int d = 0; d < shape_.head_size; ++d) {
      double value = 0;
      for (int i = first; i < visible; ++i) value += weights[i] * values_[i][d];
      out[d] = static_cast<float>(value / sum);
    }
    return out;
  }

  std::vector<std::vector<float>> Run(const Kernels& kernels,
                                      const std::vector<std::vector<float>>& queries,
                                      const std::vector<int>& visible) {
    std::vector<Sight> sights;
    for (const int positions : visible) sights.push_back({positions, positions});
    return RunSights(kernels, queries, sights);
  }

  std::vector<std::vector<float>> RunSights(const Kernels& kernels,
                                            const std::vector<std::vector<float>>& queries,
                                            const std::vector<Sight>& sights) {
    AttentionScratch scratch(shape_, kPositions);
    for (size_t i = 0; i < queries.size(); ++i) {
      std::memcpy(scratch.query(static_cast<int>(i)), queries[i].data(),
                  queries[i].size() * sizeof(float));
    }
    Attend(kernels, shape_, head_, sights.data(), static_cast<int>(queries.size()), scratch);
    std::vector<std::vector<float>> out;
    for (size_t i = 0; i < queries.size(); ++i) {
      const float* row = scratch.out(static_cast<int>(i));
      out.emplace_back(row, row + shape_.head_size);
    }
    return out;
  }

  // What position `from` holds is in cell `to` from now on.
  void Copy(int from, int to) { CopyKeyValue(shape_, head_, from, to); }

 private:
  const uint32_t pages_[3] = {2, 0, 3};
  AttentionShape shape_;
  Buffer pool_;
  std::mt19937 random_;
  HeadPages head_;
  std::vector<std::vector<float>> keys_;
  std::vector<std::vector<float>> values_;
};

constexpr WeightType kTypes[] = {WeightType::kFloat32, WeightType::kBfloat16};

TEST(Attention, HalfTheRoomInBf16) {
  for (int head_size : {6, 40, 128}) {
    const AttentionShape wide = {head_size};
    const AttentionShape narrow = {head_size, WeightType::kBfloat16};
    EXPECT_EQ(2 * narrow.key_floats(), wide.key_floats());
    EXPECT_EQ(2 * narrow.head_floats(), wide.head_floats());
  }
}

// Of plain arithmetic on what is held, rounded or not.
void ExpectPlainAndAlone(int head_size, WeightType type) {
  Fixture fixture(head_size, type);
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

TEST(Attention, EqualsPlainArithmeticAndARowAloneOnEveryPath) {
  for (int head_size : {6, 40}) {
    for (WeightType type : kTypes) ExpectPlainAndAlone(head_size, type);
  }
}

// The last positions of a row lie anywhere after the others: the same bits as in their places, and
// whatever the rows beside it see.
void ExpectPlacesDoNotShow(WeightType type) {
  for (int head_size : {6, 40}) {
    for (int straight : {0, 31, 64, 250, 254, 256}) {
      Fixture fixture(head_size, type);
      std::vector<std::vector<float>> queries;
      for (int i = 0; i < 3; ++i) queries.push_back(fixture.Random());
      const std::vector<int> visible = {straight + 3, straight + 1, straight + 2};
      const auto wanted = fixture.Run(kPortableKernels, queries, visible);
      const std::vector<int> first = {straight + 11, straight + 12, straight + 19};
      const std::vector<int> third = {straight + 20, straight + 30};
      for (int i = 0; i < 3; ++i) fixture.Copy(straight + i, first[i]);
      for (int i = 0; i < 2; ++i) fixture.Copy(straight + i, third[i]);
      const std::vector<Sight> sights = {{straight + 3, straight, first.data()},
                                         {straight + 1, straight + 1},
                                         {straight + 2, straight, third.data()}};
      for (const Kernels* kernels : SupportedKernels()) {
        EXPECT_EQ(fixture.RunSights(*kernels, queries, sights), wanted) << kernels->name;
      }
    }
  }
}

TEST(Attention, WhereThePositionsLieDoesNotShow) {
  for (WeightType type : kTypes) ExpectPlacesDoNotShow(type);
}

// Windows that begin anywhere, in the same page as they end or in one before: plain arithmetic, and
// the same bits beside other rows, whose windows may not even overlap.
TEST(Attention, AWindowHidesWhatIsBeforeIt) {
  Fixture fixture(40);
  for (int window : {1, 7, 32, 40, 300}) {
    for (int last : {8, 33, 258, 290, 530}) {
      std::vector<std::vector<float>> queries;
      std::vector<Sight> sights;
      for (int i = 0; i < 8; ++i) {
        queries.push_back(fixture.Random());
        for (float& value : queries.back()) value *= 0.3f;
        const int visible = i == 3 ? 5 : last - 7 + i;
        sights.push_back({visible, visible, nullptr, std::max(0, visible - window)});
      }
      for (const Kernels* kernels : SupportedKernels()) {
        const auto together = fixture.RunSights(*kernels, queries, sights);
        for (int i = 0; i < 8; ++i) {
          ASSERT_EQ(together[i], fixture.RunSights(kPortableKernels, {queries[i]}, {sights[i]})[0])
              << kernels->name << " window " << window << " of " << sights[i].visible;
          const auto plain = fixture.Plain(queries[i], sights[i].visible, sights[i].first);
          for (int d = 0; d < 40; ++d) ASSERT_NEAR(together[i][d], plain[d], 1e-5);
        }
      }
    }
  }
}

// As many rows as there may be read keys and values together.
TEST(Attention, ManyRowsAreEachTheRowAlone) {
  Fixture fixture(40);
  std::vector<std::vector<float>> queries;
  std::vector<int> visible;
  for (int i = 0; i < kMaxQueryRows; ++i) {
    queries.push_back(fixture.Random());
    visible.push_back(i % 7 == 0 ? 1 + i : 400 + i);
  }
  for (const Kernels* kernels : SupportedKernels()) {
    const auto together = fixture.Run(*kernels, queries, visible);
    for (int i = 0; i < kMaxQueryRows; ++i) {
      ASSERT_EQ(together[i], fixture.Run(*kernels, {queries[i]}, {visible[i]})[0])
          << kernels->name << " row " << i;
    }
  }
}

// Fewer rows at a time where a context is long, so that their scores stay in cache; never less than
// 8.
TEST(Attention, TheRowsAtATimeFitTheScores) {
  const AttentionScratch scratch({64}, 131072);
  EXPECT_EQ(scratch.MaxRows(100), kMaxQueryRows);
  EXPECT_EQ(scratch.MaxRows(8192), kMaxQueryRows);
  EXPECT_LT(scratch.MaxRows(131072), kMaxQueryRows);
  EXPECT_GE(scratch.MaxRows(131072), 8);
}

// A window that begins among positions that lie elsewhere, as in a deep tree.
TEST(Attention, AWindowMayBeginAmongPositionsThatLieElsewhere) {
  Fixture fixture(6);
  constexpr int kStraight = 250;
  const std::vector<float> query = fixture.Random();
  const std::vector<int> rest = {260, 263, 270, 271};
  for (int i = 0; i < 4; ++i) fixture.Copy(kStraight + i, rest[i]);
  for (int first : {240, 249, 250, 252, 253}) {
    const int visible = kStraight + 4;
    const Sight straight = {visible, visible, nullptr, first};
    const Sight elsewhere = {visible, kStraight, rest.data(), first};
    const Sight all = {kStraight, kStraight};
    for (const Kernels* kernels : SupportedKernels()) {
      const auto wanted = fixture.RunSights(*kernels, {query}, {straight})[0];
      EXPECT_EQ(fixture.RunSights(*kernels, {query, query, query}, {all, elsewhere, straight})[1],
                wanted)
          << first;
    }
  }
}

}  // namespace
}  // namespace tandem::model::cpu
