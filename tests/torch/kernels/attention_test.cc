// Attention's kernels on the host, against model/'s attention on the CPU, and against themselves:
// what is beside a row, and where its positions lie, must not show.
#include "torch/kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "model/cpu/attention.h"
#include "torch/kernels/attention_mma.h"

namespace tandem::kernels {
namespace {

namespace cpu = model::cpu;

// kThreads below the number of cells, so that loops take turns.
struct TestTraits {
  static constexpr int kThreads = 64;
  static constexpr uint32_t RowsTogether(uint32_t /*group*/) { return 8; }
  static constexpr int kGroup = 4;
  static constexpr int kPairs = 8;
  static inline AttentionFault kFault = AttentionFault::kNone;
};

struct OnTensorCores : MmaAttentionTraits {
  static inline AttentionFault kFault = AttentionFault::kNone;
};

// As many rows together as fill `kQueries` of a block's queries.
template <uint32_t kQueries>
struct InTilesOf : MmaAttentionTraits {
  static constexpr uint32_t RowsTogether(uint32_t group) {
    return group < kQueries ? kQueries / group : 1;
  }
};

template <typename Traits>
struct SharedOf {
  using Type = AttentionShared<Traits>;
};
template <std::derived_from<MmaAttentionTraits> Traits>
struct SharedOf<Traits> {
  using Type = MmaShared<Traits>;
};

constexpr uint32_t kPoolPages = 8;
constexpr float kScale = 0.5f;

struct Sequence {
  std::vector<uint32_t> pages;
  uint32_t cells = 0;
};

// A pass: sequences in the pool, and rows that look at them.
struct Pass {
  uint32_t heads, kv_heads, head_size;
  CacheLayer layer;
  uint32_t window;
  std::vector<float> pool;
  std::vector<uint32_t> pages, rest;
  std::vector<uint32_t> partial_rows;
  std::vector<CacheRow> rows;
  std::vector<float> queries;

  uint64_t query_size() const { return uint64_t{heads} * head_size; }
  std::vector<float> QueriesOf(size_t row) const {
    return {queries.begin() + row * query_size(), queries.begin() + (row + 1) * query_size()};
  }
};

class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed) {}

  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }
  float Normal() { return normal_(random_); }

  // A pool of noise. What no row sees is there as well.
  Pass NewPass(uint32_t kv_heads, uint32_t group, uint32_t head_size) {
    Pass pass = {kv_heads * group, kv_heads, head_size};
    const uint32_t page = kPageCells * kv_heads * head_size;
    CacheLayer& layer = pass.layer;
    layer.offset = 8;
    layer.kv_heads = kv_heads;
    layer.head_size = head_size;
    if (Below(2) == 0) {  // in each page for each head all keys, and then all values
      layer.page_words = 2 * page + 24;
      layer.value_words = kPageCells * head_size;
      layer.cell_words = head_size;
      layer.head_words = 2 * kPageCells * head_size;
      pass.pool.resize(kPoolPages * layer.page_words);
    } else {  // the keys of all pages, and then all values; cell by cell
      layer.page_words = page;
      layer.value_words = kPoolPages * page + 40;
      layer.cell_words = kv_heads * head_size;
      layer.head_words = head_size;
      pass.pool.resize(2 * layer.value_words);
    }
    for (float& word : pass.pool) word = Normal();
    return pass;
  }

  // Two sequences of up to four pages each, in any order.
  std::vector<Sequence> Sequences() {
    std::vector<uint32_t> order(kPoolPages);
    for (uint32_t i = 0; i < kPoolPages; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random_);
    return {{{order.begin(), order.begin() + 4}}, {{order.begin() + 4, order.end()}}};
  }

  void AddRow(Pass& pass, CacheRow row) {
    row.first_partial = static_cast<uint32_t>(pass.partial_rows.size());
    // Twice as many as needed: for the fault that makes them shorter.
    row.partials = 2 * (row.position / kPartial + 1);
    pass.partial_rows.insert(pass.partial_rows.end(), row.partials,
                             static_cast<uint32_t>(pass.rows.size()));
    pass.rows.push_back(row);
    for (uint32_t i = 0; i < pass.query_size(); ++i) {
      pass.queries.push_back(Normal() / std::sqrt(static_cast<float>(pass.head_size)));
    }
  }

  // A few rows of a chain, and a tree behind them: parents within the block.
  void AddRows(Pass& pass, const Sequence& sequence) {
    const uint32_t first_page = static_cast<uint32_t>(pass.pages.size());
    pass.pages.insert(pass.pages.end(), sequence.pages.begin(), sequence.pages.end());
    const uint32_t held = Below(4) == 0 ? 250 + Below(12) : Below(900);
    const uint32_t chain = 1 + Below(3);
    for (uint32_t i = 0; i < chain; ++i) {
      AddRow(pass, {first_page, held + i, held + i, held + i + 1, 0});
    }
    const uint32_t straight = held + chain;
    std::vector<std::vector<uint32_t>> paths;  // of each node, the cells from `straight` on
    for (uint32_t i = Below(7); i > 0; --i) {
      std::vector<uint32_t> path;
      if (!paths.empty() && Below(4) != 0) path = paths[Below(static_cast<uint32_t>(paths.size()))];
      path.push_back(straight + static_cast<uint32_t>(paths.size()));
      paths.push_back(path);
      AddRow(pass, {first_page, straight + static_cast<uint32_t>(path.size()) - 1, path.back(),
                    straight, static_cast<uint32_t>(pass.rest.size())});
      pass.rest.insert(pass.rest.end(), path.begin(), path.end());
    }
  }

  Pass RandomPass(uint32_t unit = 2) {
    Pass pass = NewPass(1 + Below(2), 1 + Below(5), unit * (1 + Below(40 / unit)));
    for (const Sequence& sequence : Sequences()) AddRows(pass, sequence);
    if (Below(3) == 0) pass.window = 1 + Below(400);
    return pass;
  }

  // Rows behind 300 tokens or more: together they read the first partial.
  Pass WidePass(uint32_t group, uint32_t head_size, uint32_t rows) {
    Pass pass = NewPass(1, group, head_size);
    pass.pages = Sequences()[0].pages;
    const uint32_t held = 300 + Below(100);
    for (uint32_t i = held; i < held + rows; ++i) AddRow(pass, {0, i, i, i + 1, 0});
    return pass;
  }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<float> normal_;
};

template <typename Element, typename Traits = TestTraits>
std::vector<float> Attend(const Pass& pass, ThreadOrder order) {
  std::vector<typename Element::Word> pool(pass.pool.size());
  for (size_t i = 0; i < pool.size(); ++i) pool[i] = Element::Store(pass.pool[i]);
  const size_t all = pass.partial_rows.size() * pass.heads;
  std::vector<float> largest(all, NAN), sums(all, NAN), values(all * pass.head_size, NAN);
  std::vector<typename Element::Word> out(pass.queries.size(), Element::Store(NAN));
  AttentionArguments a;
  a.rows = pass.rows.data();
  a.pages = pass.pages.data();
  a.rest = pass.rest.data();
  a.partial_rows = pass.partial_rows.data();
  a.pool = pool.data();
  a.layer = pass.layer;
  a.row_count = static_cast<uint32_t>(pass.rows.size());
  a.heads = pass.heads;
  a.queries = pass.queries.data();
  a.out = out.data();
  a.window = pass.window;
  a.blocks = 5;  // fewer than partials, so that each takes several
  a.scale = kScale;
  a.partial_largest = largest.data();
  a.partial_sums = sums.data();
  a.partial_values = values.data();
  const auto shared = std::make_unique<typename SharedOf<Traits>::Type>();
  // In two launches, as a tile whose partials have no room together.
  const uint32_t rows = a.row_count, first_launch = rows / 2;
  for (const auto& [first, count] :
       {std::pair(0u, first_launch), {first_launch, rows - first_launch}}) {
    a.first_row = first;
    a.row_count = count;
    a.queries = pass.queries.data() + first * pass.query_size();
    a.out = out.data() + first * pass.query_size();
    for (uint32_t x = 0; x < a.blocks && count > 0; ++x) {
      AttendPartials<Traits, Element>(Block(x, 0, Traits::kThreads, order), *shared, a);
    }
    for (uint32_t x = 0; x < count; ++x) {
      for (uint32_t y = 0; y * Traits::kThreads < pass.query_size(); ++y) {
        CombinePartials<Traits, Element>(Block(x, y, Traits::kThreads, order), a);
      }
    }
  }
  std::vector<float> result;
  for (const auto& word : out) result.push_back(Element::Load(word));
  return result;
}

// The same by model/'s attention, whose pages have another layout.
std::vector<float> OnCpu(const Pass& pass) {
  std::vector<float> out(pass.queries.size());
  const cpu::AttentionShape shape = {static_cast<int>(pass.head_size)};
  cpu::AttentionScratch scratch(shape, 2048);
  std::vector<float> pool(kPoolPages * shape.head_floats());
  std::vector<uint32_t> all_pages(kPoolPages);
  for (uint32_t i = 0; i < kPoolPages; ++i) all_pages[i] = i;
  for (uint32_t kv_head = 0; kv_head < pass.kv_heads; ++kv_head) {
    cpu::HeadPages head = {pool.data(), shape.head_floats(), 0, all_pages.data()};
    for (uint32_t cell = 0; cell < kPoolPages * kPageCells; ++cell) {
      const float* key = pass.pool.data() + pass.layer.KeyOf(cell / kPageCells, cell, kv_head);
      cpu::WriteKeyValue(shape, head, static_cast<int>(cell), key, key + pass.layer.value_words);
    }
    for (size_t i = 0; i < pass.rows.size(); ++i) {
      const CacheRow& row = pass.rows[i];
      head.pages = pass.pages.data() + row.first_page;
      const int visible = static_cast<int>(row.position) + 1;
      const int straight = std::min(visible, static_cast<int>(row.straight));
      const std::vector<int> rest(pass.rest.begin() + row.first_rest,
                                  pass.rest.begin() + row.first_rest + (visible - straight));
      const int window = static_cast<int>(pass.window);
      const int first = window == 0 ? 0 : std::max(0, visible - window);
      const cpu::Sight sight = {visible, straight, rest.data(), first};
      const uint32_t group = pass.heads / pass.kv_heads;
      for (uint32_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
        const size_t at = i * pass.query_size() + size_t{h} * pass.head_size;
        std::transform(&pass.queries[at], &pass.queries[at] + pass.head_size, scratch.query(0),
                       [](float query) { return query * kScale; });
        cpu::Attend(cpu::kPortableKernels, shape, head, &sight, 1, scratch);
        std::memcpy(&out[at], scratch.out(0), pass.head_size * sizeof(float));
      }
    }
  }
  return out;
}

// A row's partials of a head, in their order; `values`: `size` of each.
template <typename Element>
void AddTogether(const std::vector<float>& largest, const std::vector<float>& sums,
                 const std::vector<float>& values, uint32_t size, std::vector<float>& out) {
  const float most = *std::max_element(largest.begin(), largest.end());
  for (uint32_t d = 0; d < size; ++d) {
    float sum = 0, value = 0;
    for (size_t p = 0; p < largest.size(); ++p) {
      const float share = Exp(largest[p] - most);
      sum = Fma(sums[p], share, sum);
      value = Fma(values[p * size + d], share, value);
    }
    out.push_back(Element::Load(Element::Store(value / sum)));
  }
}

// The positions that a head of a row sees: from `begin` to below `end`.
struct Seen {
  Seen(const Pass& of, size_t number)
      : pass(of),
        row(of.rows[number / of.heads]),
        kv_head(static_cast<uint32_t>(number % of.heads / (of.heads / of.kv_heads))),
        begin(of.window == 0 || of.window > row.position ? 0 : row.position + 1 - of.window),
        end(row.position + 1) {}
  // Where its key lies in the pool.
  auto KeyAt(uint32_t position) const {
    const uint32_t cell =
        position < row.straight ? position : pass.rest[row.first_rest + position - row.straight];
    const uint32_t page = pass.pages[row.first_page + cell / kPageCells];
    return pass.layer.KeyOf(page, cell, kv_head);
  }

  const Pass& pass;
  const CacheRow& row;
  const uint32_t kv_head, begin, end;
};

// The order of every sum, as simply as it can be written: kernels that read memory in another way
// keep these bits.
template <typename Element>
std::vector<float> Plainly(const Pass& pass) {
  std::vector<typename Element::Word> pool(pass.pool.size());
  for (size_t i = 0; i < pool.size(); ++i) pool[i] = Element::Store(pass.pool[i]);
  const uint32_t size = pass.head_size;
  const auto halved = [](std::vector<float> values, auto combine) {
    for (size_t half = values.size() / 2; half > 0; half /= 2) {
      for (size_t i = 0; i < half; ++i) values[i] = combine(values[i], values[i + half]);
    }
    return values[0];
  };
  std::vector<float> out;
  for (size_t number = 0; number < pass.rows.size() * pass.heads; ++number) {
    const Seen seen(pass, number);
    const uint32_t begin = seen.begin, visible = seen.end;
    const auto key = [&](uint32_t position) { return pool.data() + seen.KeyAt(position); };
    std::vector<float> largest, sums, values;
    for (uint32_t first = begin / kPartial * kPartial; first < visible; first += kPartial) {
      const uint32_t from = std::max(first, begin), to = std::min(first + kPartial, visible);
      std::vector<float> scores(kPartial, -0x1.fffffep127f), weights(kPartial);
      for (uint32_t i = from; i < to; ++i) {
        float score = 0;
        for (uint32_t d = 0; d < size; ++d) {
          const float query = pass.queries[number * size + d] * kScale;
          score = Fma(query, Element::Load(key(i)[d]), score);
        }
        scores[i - first] = score;
      }
      largest.push_back(halved(scores, [](float x, float y) { return x > y ? x : y; }));
      for (uint32_t i = from; i < to; ++i) {
        weights[i - first] = Exp(scores[i - first] - largest.back());
      }
      sums.push_back(halved(weights, [](float x, float y) { return x + y; }));
      for (uint32_t d = 0; d < size; ++d) {
        float value = 0;
        for (uint32_t i = from; i < to; ++i) {
          value = Fma(weights[i - first], Element::Load(key(i)[pass.layer.value_words + d]), value);
        }
        values.push_back(value);
      }
    }
    AddTogether<Element>(largest, sums, values, size, out);
  }
  return out;
}

// By whole numbers of 16-bit words, in the order of attention_mma.h.
template <typename Element>
std::vector<float> PlainlyOnTensorCores(const Pass& pass) {
  const uint32_t size = pass.head_size;
  const auto rounded = [](float value) { return Element::Load(Element::Store(value)); };
  const uint32_t stretches = (size + 63) / 64, chunks = stretches == 1 ? 8 : stretches == 2 ? 4 : 2;
  std::vector<float> out;
  for (size_t number = 0; number < pass.rows.size() * pass.heads; ++number) {
    const Seen seen(pass, number);
    const uint32_t begin = seen.begin, visible = seen.end;
    const auto key = [&](uint32_t position) { return pass.pool.data() + seen.KeyAt(position); };
    std::vector<float> largest, sums, values;
    for (uint32_t first = begin / kPartial * kPartial; first < visible; first += kPartial) {
      const uint32_t from = std::max(first, begin), to = std::min(first + kPartial, visible);
      std::vector<float> scores(kPartial), weights(kPartial);
      largest.push_back(-0x1.fffffep127f);
      for (uint32_t i = from; i < to; ++i) {
        float sum = 0;
        for (uint32_t step = 0; step < (size + 31) / 32 * 2; ++step) {
          double all = 0;
          for (uint32_t k = 0; k < 16; ++k) {
            const uint32_t d = step / 2 * 32 + k % 8 / 2 * 8 + step % 2 * 4 + k / 8 * 2 + k % 2;
            if (d >= size) continue;
            all += double{rounded(pass.queries[number * size + d])} * rounded(key(i)[d]);
          }
          sum = static_cast<float>(sum + all);
        }
        scores[i - first] = sum * kScale;
        largest.back() = std::max(largest.back(), scores[i - first]);
      }
      std::vector<float> parts(16);
      for (uint32_t i = from; i < to; ++i) {
        weights[i - first] = rounded(Exp(scores[i - first] - largest.back()));
        parts[(i - first) % 16] += weights[i - first];
      }
      for (uint32_t i = 1; i < 16; ++i) parts[0] += parts[i];
      sums.push_back(parts[0]);
      for (uint32_t d = 0; d < size; ++d) {
        float value = 0;
        for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
          float sum = 0;
          for (uint32_t i = 0; i < kPartial / chunks; i += 16) {
            double all = 0;
            for (uint32_t k = 0; k < 16; ++k) {
              const uint32_t at = chunk * (kPartial / chunks) + i + k, position = first + at;
              if (position < from || position >= to) continue;
              all += double{weights[at]} * rounded(key(position)[pass.layer.value_words + d]);
            }
            sum = static_cast<float>(sum + all);
          }
          value += sum;
        }
        values.push_back(value);
      }
    }
    AddTogether<Element>(largest, sums, values, size, out);
  }
  return out;
}

double LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(double{a[i]} - b[i]);
    if (!(difference <= largest)) largest = difference;  // a NaN, too
  }
  return largest;
}

// Only row `row` of a pass.
Pass Alone(const Pass& pass, size_t row) {
  Pass alone = pass;
  alone.rows = {pass.rows[row]};
  alone.rows[0].first_partial = 0;
  alone.partial_rows.assign(pass.rows[row].partials, 0);
  alone.queries = pass.QueriesOf(row);
  return alone;
}

constexpr ThreadOrder kOrders[] = {ThreadOrder::kAscending, ThreadOrder::kDescending,
                                   ThreadOrder::kOddFirst};

// Empty, or what is wrong: with the values, or with the bits of a row beside others.
std::string CheckPasses(uint64_t seed, int passes) {
  Maker maker(seed);
  for (int i = 0; i < passes; ++i) {
    const Pass pass = maker.RandomPass();
    const std::vector<float> out = Attend<Float32>(pass, kOrders[i % 3]);
    const double difference = LargestDifference(out, OnCpu(pass));
    if (!(difference < 1e-5)) return absl::StrCat("differs from the CPU by ", difference);
    for (size_t row = 0; row < pass.rows.size(); row += 2) {
      const std::vector<float> alone = Attend<Float32>(Alone(pass, row), kOrders[(i + row) % 3]);
      if (std::memcmp(alone.data(), &out[row * pass.query_size()], alone.size() * sizeof(float)) !=
          0) {
        return "a row alone has other bits";
      }
    }
  }
  return "";
}

TEST(AttentionKernels, EqualTheCpusAndARowAlone) { EXPECT_EQ(CheckPasses(1, 20), ""); }

TEST(AttentionKernels, WhereThePositionsOfATreeLieDoesNotShow) {
  Maker maker(2);
  for (uint32_t straight : {0u, 3u, 254u, 256u, 511u}) {
    Pass tree = maker.NewPass(2, 2, 12);
    tree.pages = {5, 2, 7, 1};
    tree.rest = {straight + 1, straight + 4};
    maker.AddRow(tree, {0, straight + 1, straight + 4, straight, 0});
    Pass chain = tree;
    chain.rows[0].cell = straight + 1;
    chain.rows[0].straight = straight + 2;
    for (uint32_t i = 0; i < 2; ++i) {
      for (uint32_t kv_head = 0; kv_head < 2; ++kv_head) {
        const auto key = [&](uint32_t cell) {
          return tree.layer.KeyOf(tree.pages[cell / kPageCells], cell, kv_head);
        };
        for (uint64_t part : {uint64_t{0}, tree.layer.value_words}) {
          std::copy_n(tree.pool.begin() + key(tree.rest[i]) + part, 12,
                      chain.pool.begin() + key(straight + i) + part);
        }
      }
    }
    EXPECT_EQ(Attend<Float32>(tree, kOrders[0]), Attend<Float32>(chain, kOrders[1])) << straight;
  }
}

// Five rows behind 600 tokens, as a block of draft tokens, and a row of another sequence.
TEST(AttentionKernels, RowsOfASequenceReadWholePartialsOnce) {
  Maker maker(6);
  Pass pass = maker.NewPass(1, 4, 16);
  const std::vector<Sequence> sequences = maker.Sequences();
  for (const Sequence& sequence : sequences) {
    const uint32_t first_page = static_cast<uint32_t>(pass.pages.size());
    pass.pages.insert(pass.pages.end(), sequence.pages.begin(), sequence.pages.end());
    const uint32_t rows = first_page == 0 ? 5 : 1;
    for (uint32_t i = 600; i < 600 + rows; ++i) maker.AddRow(pass, {first_page, i, i, i + 1, 0});
  }
  AttentionArguments a;
  a.rows = pass.rows.data();
  a.row_count = 6;
  a.heads = pass.heads;
  a.layer = pass.layer;
  for (uint32_t partial = 0; partial < 3; ++partial) {
    std::vector<uint32_t> counts;
    for (uint32_t row = 0; row < 6; ++row) {
      counts.push_back(RowsTogether<TestTraits>(a, row, partial * kPartial).count);
    }
    std::vector<uint32_t> expected = {0, 0, 0, 0, 0, 1};
    expected[partial] = 5;
    // The last one holds the rows' own keys: not all of them see it whole.
    if (partial == 2) expected.assign(6, 1);
    EXPECT_EQ(counts, expected) << partial;
  }
  EXPECT_EQ(Attend<Float32>(pass, kOrders[2]), Plainly<Float32>(pass));
}

TEST(AttentionKernels, RowsThatFillUpGetZerosAndChangeNoOther) {
  Maker maker(5);
  Pass pass = maker.RandomPass();
  const std::vector<float> alone = Attend<Float32>(pass, kOrders[0]);
  for (int i = 0; i < 3; ++i) {
    CacheRow filling;
    filling.straight = 1;
    filling.first_partial = static_cast<uint32_t>(pass.partial_rows.size());
    pass.rows.push_back(filling);
  }
  pass.queries.resize(pass.rows.size() * pass.query_size(), 1);
  std::vector<float> expected = alone;
  expected.resize(pass.queries.size(), 0);
  EXPECT_EQ(Attend<Float32>(pass, kOrders[0]), expected);
}

template <typename Element>
class AttentionTypes : public ::testing::Test {};
using AllTypes = ::testing::Types<Float32, Bfloat16, Float16>;
TYPED_TEST_SUITE(AttentionTypes, AllTypes);

// By 16 bytes at a time where heads are multiples of them, and the rest of a head without.
TYPED_TEST(AttentionTypes, SumsKeepTheirOrderHoweverMemoryIsRead) {
  Maker maker(7);
  for (uint32_t size : {6u, 12u, 16u, 40u, 64u, 80u, 128u, 256u}) {
    Pass pass = maker.NewPass(1, 3, size);
    pass.window = size == 16 ? 300 : 0;
    maker.AddRows(pass, maker.Sequences()[0]);
    while (pass.rows.size() > 3) pass.rows.pop_back();
    pass.queries.resize(pass.rows.size() * pass.query_size());
    pass.partial_rows.resize(pass.rows.back().first_partial + pass.rows.back().partials);
    EXPECT_EQ(Attend<TypeParam>(pass, kOrders[size / 2 % 3]), Plainly<TypeParam>(pass)) << size;
  }
}

TYPED_TEST(AttentionTypes, AreReadAndWritten) {
  Maker maker(3);
  Pass pass = maker.RandomPass();
  const std::vector<float> out = Attend<TypeParam>(pass, kOrders[0]);
  for (float& word : pass.pool) word = TypeParam::Load(TypeParam::Store(word));
  std::vector<float> expected = Attend<Float32>(pass, kOrders[0]);
  for (float& value : expected) value = TypeParam::Load(TypeParam::Store(value));
  EXPECT_EQ(out, expected);
}

TEST(AttentionKernels, PlantedFaultsAreFound) {
  for (AttentionFault fault : {AttentionFault::kLastPositionLost, AttentionFault::kBranchesIgnored,
                               AttentionFault::kPagesIgnored, AttentionFault::kPartialsOfTheBatch,
                               AttentionFault::kSharesForgotten, AttentionFault::kBarrierMissing,
                               AttentionFault::kWindowIgnored, AttentionFault::kSequencesMixed}) {
    TestTraits::kFault = fault;
    EXPECT_NE(CheckPasses(1, 6), "") << static_cast<int>(fault);
  }
  TestTraits::kFault = AttentionFault::kNone;
}

// What no row sees is NaN, as an earlier sequence may have left it.
void SpoilTheUnseen(Pass& pass) {
  std::vector<bool> seen(kPoolPages * kPageCells);
  for (const CacheRow& row : pass.rows) {
    for (uint32_t position = 0; position <= row.position; ++position) {
      const uint32_t cell =
          position < row.straight ? position : pass.rest[row.first_rest + position - row.straight];
      seen[pass.pages[row.first_page + cell / kPageCells] * kPageCells + cell % kPageCells] = true;
    }
  }
  for (uint32_t cell = 0; cell < seen.size(); ++cell) {
    for (uint32_t kv_head = 0; kv_head < pass.kv_heads && !seen[cell]; ++kv_head) {
      const uint64_t key = pass.layer.KeyOf(cell / kPageCells, cell, kv_head);
      std::fill_n(pass.pool.begin() + key, pass.head_size, NAN);
      std::fill_n(pass.pool.begin() + key + pass.layer.value_words, pass.head_size, NAN);
    }
  }
}

// Empty, or what is wrong: with the values, or with the bits of a row beside others.
template <typename Element>
std::string CheckTilesOf(Pass pass, size_t turn) {
  const std::vector<float> on_cpu = OnCpu(pass);
  SpoilTheUnseen(pass);
  const std::vector<float> out = Attend<Element, OnTensorCores>(pass, kOrders[turn % 3]);
  const double difference = LargestDifference(out, on_cpu);
  if (!(difference < 0.05)) return absl::StrCat("differs from the CPU by ", difference);
  if (out != PlainlyOnTensorCores<Element>(pass)) return "sums have another order";
  for (size_t row = 0; row < pass.rows.size(); row += 2) {
    const std::vector<float> alone =
        Attend<Element, OnTensorCores>(Alone(pass, row), kOrders[(turn + row) % 3]);
    if (std::memcmp(alone.data(), &out[row * pass.query_size()], alone.size() * sizeof(float)) !=
        0) {
      return "a row alone has other bits";
    }
  }
  return "";
}

// Of passes of any kind, and of as many that fill a block's queries, or most of them.
template <typename Element>
std::string CheckTiles(uint64_t seed, size_t passes) {
  Maker maker(seed);
  for (size_t i = 0; i < 2 * passes; ++i) {
    const bool wide = i % 2 == 1;
    Pass pass = wide ? maker.WidePass(3 + maker.Below(4), 8 * (1 + maker.Below(5)), 28)
                     : maker.RandomPass(/*unit=*/8);
    std::string wrong = CheckTilesOf<Element>(std::move(pass), seed + i);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

TEST(AttentionTiles, AreNearTheCpusAndARowHasItsBitsAlone) {
  EXPECT_EQ(CheckTiles<Bfloat16>(1, 4), "");
  EXPECT_EQ(CheckTiles<Float16>(2, 2), "");
}

// Heads as models have them: of one stretch of elements, of a part of one, of several.
TEST(AttentionTiles, SumsHaveTheirOrderInHeadsOfAnySize) {
  Maker maker(7);
  for (uint32_t size : {16u, 64u, 80u, 128u, 192u, 256u}) {
    Pass pass = maker.NewPass(1, size == 64 ? 18 : 2, size);
    pass.window = size == 16 ? 300 : 0;
    pass.pages = maker.Sequences()[0].pages;
    for (uint32_t i = 300; i < 303; ++i) maker.AddRow(pass, {0, i, i, i + 1, 0});
    SpoilTheUnseen(pass);
    EXPECT_TRUE((Attend<Bfloat16, OnTensorCores>(pass, kOrders[size / 16 % 3])) ==
                PlainlyOnTensorCores<Bfloat16>(pass))
        << size;
  }
}

// As many queries together as fill four tiles, three, two and one. 71 are more than a block has.
TEST(AttentionTiles, ARowHasTheSameBitsInTilesOfAnyNumber) {
  Maker maker(9);
  for (uint32_t group : {1u, 4u, 7u, 18u, 71u}) {
    const Pass pass = maker.WidePass(group, group == 4 ? 128 : 24, group > 7 ? 6 : 36);
    const auto of_64 = Attend<Bfloat16, InTilesOf<64>>(pass, kOrders[0]);
    EXPECT_TRUE((of_64 == Attend<Bfloat16, InTilesOf<48>>(pass, kOrders[1]))) << group;
    EXPECT_TRUE((of_64 == Attend<Bfloat16, InTilesOf<32>>(pass, kOrders[2]))) << group;
    EXPECT_TRUE((of_64 == Attend<Bfloat16, InTilesOf<16>>(pass, kOrders[0]))) << group;
    EXPECT_TRUE((of_64 == Attend<Bfloat16, InTilesOf<1>>(pass, kOrders[1]))) << group;
    EXPECT_TRUE((of_64 == Attend<Bfloat16, OnTensorCores>(pass, kOrders[2]))) << group;
  }
}

TEST(AttentionTiles, AsManyRowsAsFillABlockReadTogether) {
  EXPECT_EQ(MmaAttentionTraits::RowsTogether(1), 16u);
  EXPECT_EQ(MmaAttentionTraits::RowsTogether(4), 16u);
  EXPECT_EQ(MmaAttentionTraits::RowsTogether(7), 9u);
  EXPECT_EQ(MmaAttentionTraits::RowsTogether(64), 1u);
  EXPECT_EQ(MmaAttentionTraits::RowsTogether(71), 1u);
}

// One of them has a NaN in each query. 15 rows of each launch read together, so four tiles do.
TEST(AttentionTiles, NoQueryOfATileSeesAnother) {
  Pass pass = Maker(8).WidePass(4, 32, 30);
  std::vector<float> expected = Attend<Bfloat16, OnTensorCores>(pass, kOrders[0]);
  const auto broken = static_cast<ptrdiff_t>(2 * pass.query_size());
  std::fill_n(pass.queries.begin() + broken, pass.query_size(), NAN);
  std::vector<float> out = Attend<Bfloat16, OnTensorCores>(pass, kOrders[1]);
  for (auto* values : {&expected, &out}) {
    values->erase(values->begin() + broken,
                  values->begin() + broken + static_cast<ptrdiff_t>(pass.query_size()));
  }
  EXPECT_EQ(out, expected);
}

TEST(AttentionTiles, PlantedFaultsAreFound) {
  for (AttentionFault fault : {AttentionFault::kLastPositionLost, AttentionFault::kBranchesIgnored,
                               AttentionFault::kPagesIgnored, AttentionFault::kSharesForgotten,
                               AttentionFault::kWindowIgnored, AttentionFault::kSequencesMixed,
                               AttentionFault::kStaleValues, AttentionFault::kQueriesUnscaled,
                               AttentionFault::kHalvesSwapped, AttentionFault::kChunkLost,
                               AttentionFault::kQueriesOfOneTile, AttentionFault::kTilesSwapped,
                               AttentionFault::kStagedEarly, AttentionFault::kWeightsLost}) {
    OnTensorCores::kFault = fault;
    bool found = false;  // not every pass has a window, or rows of two sequences side by side
    for (uint64_t seed = 1; seed <= 20 && !found; ++seed) {
      found = !CheckTiles<Bfloat16>(seed, 1).empty();
    }
    EXPECT_TRUE(found) << static_cast<int>(fault);
  }
  OnTensorCores::kFault = AttentionFault::kNone;
}

TEST(Exp, IsNearTheExponential) {
  for (float x = 0; x > -87; x -= 0.0137f) {
    ASSERT_NEAR(Exp(x) / std::exp(double{x}), 1, 2e-7) << x;
  }
  EXPECT_EQ(Exp(0), 1);
  EXPECT_EQ(Exp(-100), 0);
  EXPECT_TRUE(std::isnan(Exp(NAN)));
}

}  // namespace
}  // namespace tandem::kernels
