// Sequences that begin alike share pages: the rows after them are the bits of a sequence that
// computed all by itself, scopes never mix, and pages are given up as soon as somebody needs their
// room.
#include "model/prefix_cache.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "model/cpu/attention.h"
#include "tests/model/support.h"

namespace tandem::model::testing::prefix_cache_test {
namespace {

constexpr int kPage = cpu::kPageTokens;

std::unique_ptr<Decoder> Model(int pages) {
  DecoderOptions options;
  options.pool_tokens = int64_t{pages} * kPage;
  options.max_rows = 600;
  return MakeDecoder(GoldenDirectory("llama3"), options);
}

std::vector<uint32_t> Text(uint32_t seed, int tokens) {
  std::mt19937 random(seed);
  return RandomTokens(random, tokens, 64);
}

// A sequence as a service keeps it: what is recalled, what is computed, the logits of its last
// token.
struct Sequence {
  std::unique_ptr<Cache> cache;
  int recalled = 0;
  std::vector<float> last;
};

Sequence Begin(Decoder& model, const std::string& scope, absl::Span<const uint32_t> text) {
  Sequence sequence;
  auto cache = model.NewCache(static_cast<int>(text.size()));
  EXPECT_TRUE(cache.ok()) << cache.status();
  sequence.cache = *std::move(cache);
  sequence.recalled = model.Recall(*sequence.cache, {scope, text.first(text.size() - 1)});
  const auto rest = text.subspan(static_cast<size_t>(sequence.recalled));
  auto logits = model.Forward({{sequence.cache.get(), rest, static_cast<int>(rest.size()) - 1}});
  EXPECT_TRUE(logits.ok()) << logits.status();
  sequence.last.assign(logits->row(0).begin(), logits->row(0).end());
  return sequence;
}

TEST(PrefixSharing, WholePagesAreRecalledAndTheRowsAfterThemAreTheSameBits) {
  auto alone = Model(4);
  auto model = Model(8);
  const std::vector<uint32_t> text = Text(1, 400);
  Sequence first = Begin(*model, "a", text);
  EXPECT_EQ(first.recalled, 0);
  model->Share(*first.cache, {"a", text});
  EXPECT_EQ(first.cache->shared(), kPage);
  first.cache.reset();
  // The same, another end, and another beginning.
  std::vector<uint32_t> other_end = text;
  other_end.back() ^= 1;
  std::vector<uint32_t> other_beginning = text;
  other_beginning[kPage - 1] ^= 1;
  for (const auto& [tokens, recalled] :
       {std::pair{text, kPage}, {other_end, kPage}, {other_beginning, 0}}) {
    const Sequence sequence = Begin(*model, "a", tokens);
    EXPECT_EQ(sequence.recalled, recalled);
    EXPECT_EQ(sequence.last, Begin(*alone, "", tokens).last);
  }
}

TEST(PrefixSharing, ScopesNeverMix) {
  auto model = Model(8);
  const std::vector<uint32_t> text = Text(2, 300);
  Sequence first = Begin(*model, "a", text);
  model->Share(*first.cache, {"a", text});
  for (const char* scope : {"", "b", "A", "aa"}) {
    EXPECT_EQ(Begin(*model, scope, text).recalled, 0) << scope;
  }
  EXPECT_EQ(Begin(*model, "a", text).recalled, kPage);
}

TEST(PrefixSharing, TwoThatComputedTheSameHoldItOnce) {
  auto model = Model(8);
  const std::vector<uint32_t> text = Text(3, 300);
  Sequence one = Begin(*model, "a", text);
  Sequence two = Begin(*model, "a", text);
  EXPECT_EQ(model->room()->free, 4 * kPage);
  model->Share(*one.cache, {"a", text});
  model->Share(*two.cache, {"a", text});
  EXPECT_EQ(model->room()->free, 5 * kPage);
  const Sequence three = Begin(*model, "a", text);
  EXPECT_EQ(three.recalled, kPage);
  EXPECT_EQ(three.last, one.last);
  EXPECT_EQ(model->room()->free, 4 * kPage);
}

TEST(PrefixSharing, WhatNobodyHoldsGivesWayTheOldestFirst) {
  auto model = Model(4);
  for (uint32_t seed = 10; seed < 14; ++seed) {
    const std::vector<uint32_t> text = Text(seed, 257);
    Sequence sequence = Begin(*model, "a", text);
    EXPECT_EQ(sequence.recalled, 0);
    model->Share(*sequence.cache, {"a", text});
    EXPECT_EQ(model->room()->free, 2 * kPage);
  }
  EXPECT_EQ(model->room()->free, 4 * kPage);
  // Of 10 to 13 the later ones are known: a sequence needs two pages, so one page of before stays.
  EXPECT_EQ(Begin(*model, "a", Text(13, 257)).recalled, kPage);
  EXPECT_EQ(Begin(*model, "a", Text(10, 257)).recalled, 0);
}

TEST(PrefixSharing, WhatSomebodyHoldsStays) {
  auto model = Model(4);
  const std::vector<uint32_t> text = Text(20, 300);
  Sequence first = Begin(*model, "a", text);
  model->Share(*first.cache, {"a", text});
  EXPECT_FALSE(model->NewCache(3 * kPage - 300 % kPage).ok());
  auto second = model->NewCache(2 * kPage);
  ASSERT_TRUE(second.ok());
  // Nothing was overwritten.
  second->reset();
  EXPECT_EQ(Begin(*model, "a", text).last, first.last);
}

// Random texts of a few families, shared and dropped in a pool that is too small for all of them.
TEST(PrefixSharing, RandomLivesGiveTheBitsOfSequencesAlone) {
  auto alone = Model(2);
  auto model = Model(7);
  std::mt19937 random(4);
  struct Live {
    std::string scope;
    std::vector<uint32_t> text;
    Sequence sequence;
  };
  std::vector<Live> live;
  int recalled = 0;
  for (int step = 0; step < 60; ++step) {
    const bool full = model->room()->free < 2 * kPage;
    if (!live.empty() && (full || random() % 3 == 0)) {
      live.erase(live.begin() + static_cast<int>(random() % live.size()));
      continue;
    }
    if (full) continue;
    // One of three beginnings of a page, one of two middles, an end of its own.
    std::vector<uint32_t> text = Text(100 + random() % 3, kPage);
    const std::vector<uint32_t> middle = Text(200 + random() % 2, 20);
    const std::vector<uint32_t> end = Text(300 + random() % 50, 1 + random() % 100);
    text.insert(text.end(), middle.begin(), middle.end());
    text.insert(text.end(), end.begin(), end.end());
    const std::string scope = random() % 4 == 0 ? "b" : "a";
    Sequence sequence = Begin(*model, scope, text);
    recalled += sequence.recalled > 0 ? 1 : 0;
    ASSERT_EQ(sequence.last, Begin(*alone, "", text).last) << "step " << step;
    if (random() % 4 != 0) model->Share(*sequence.cache, {scope, text});
    live.push_back({scope, std::move(text), std::move(sequence)});
  }
  EXPECT_GT(recalled, 10);
  live.clear();
  EXPECT_EQ(model->room()->free, 7 * kPage);
  EXPECT_TRUE(model->NewCache(512).ok());
}

}  // namespace
}  // namespace tandem::model::testing::prefix_cache_test
