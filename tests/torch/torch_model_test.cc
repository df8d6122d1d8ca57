// The half of a LibTorch model that is ours: which rows its step gets, what they see, and which
// cells move. The step here is not a decoder: its logits are a function of the tokens that a row
// sees, in their order. So a row that saw anything else has other logits.
#include "torch/torch_model.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/trees.h"
#include "torch/self_check.h"

namespace tandem::torch {
namespace {

using ::testing::StartsWith;

constexpr int kVocabulary = 50;
constexpr int kContext = 1024;
constexpr int kMaxRows = 64;
constexpr int kPages = 12;

std::vector<float> LogitsOf(const std::vector<uint32_t>& seen) {
  uint32_t hash = 2166136261u;
  for (uint32_t token : seen) hash = (hash ^ (token + 1)) * 16777619u;
  std::vector<float> logits(kVocabulary);
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>((hash + i * 2654435761u) % 65521u);
  }
  return logits;
}

using Cells = std::map<int64_t, int64_t>;  // tokens, by cell of the whole cache
using WrongMoves = std::function<void(absl::Span<const CellMove> moves, Cells& cells)>;

class SeeingStep final : public Step {
 public:
  const StepInfo& info() const override { return info_; }

  absl::Status Run(const PassRows& pass) override {
    if (!failure.ok()) return failure;
    for (const Row& row : pass.rows) tokens_[CellOf(pass.pages[row.part], row.cell)] = row.token;
    logits_.clear();
    for (int wanted : pass.logits_rows) {
      const Row& row = pass.rows[wanted];
      const uint32_t* pages = pass.pages[row.part];
      std::vector<uint32_t> seen;
      for (int cell = 0; cell < row.straight; ++cell) seen.push_back(At(pages, cell));
      for (int i = 0; i < row.visible - row.straight; ++i) seen.push_back(At(pages, row.rest[i]));
      EXPECT_EQ(row.position + 1, row.visible);
      const std::vector<float> logits = LogitsOf(seen);
      logits_.insert(logits_.end(), logits.begin(), logits.end());
    }
    return absl::OkStatus();
  }

  DeviceLogits logits() const override { return {logits_.data(), kVocabulary}; }
  absl::Status ReadLogits(float* logits) override {
    std::memcpy(logits, logits_.data(), logits_.size() * sizeof(float));
    return absl::OkStatus();
  }

  absl::Status MoveCells(absl::Span<const CellMove> moves) override {
    if (!copy_failure.ok()) return copy_failure;
    ++copies;
    moved += moves.size();
    if (wrong_moves) {
      wrong_moves(moves, tokens_);
      return absl::OkStatus();
    }
    const auto before = tokens_;
    for (const CellMove& move : moves) tokens_[move.to] = before.at(move.from);
    return absl::OkStatus();
  }

  absl::Status failure;
  absl::Status copy_failure;
  WrongMoves wrong_moves;
  int copies = 0;
  size_t moved = 0;

 private:
  static int64_t CellOf(const uint32_t* pages, int64_t cell) {
    EXPECT_LT(pages[cell / kPageTokens], static_cast<uint32_t>(kPages));
    return int64_t{pages[cell / kPageTokens]} * kPageTokens + cell % kPageTokens;
  }
  uint32_t At(const uint32_t* pages, int cell) {
    return static_cast<uint32_t>(tokens_[CellOf(pages, cell)]);
  }

  StepInfo info_;
  Cells tokens_;
  std::vector<float> logits_;
};

struct Made {
  std::unique_ptr<TorchModel> model;
  SeeingStep* step = nullptr;
};

Made MakeModel() {
  model::ModelInfo info;
  info.vocabulary_size = kVocabulary;
  info.context_length = kContext;
  auto step = std::make_unique<SeeingStep>();
  Made made;
  made.step = step.get();
  made.model = std::make_unique<TorchModel>(std::move(step), kMaxRows, kPages, std::move(info));
  return made;
}

std::vector<uint32_t> RandomTokens(std::mt19937& random, int count) {
  std::vector<uint32_t> tokens(static_cast<size_t>(count));
  for (uint32_t& token : tokens) token = random() % kVocabulary;
  return tokens;
}

std::vector<float> RowOf(const model::Logits& logits, int row) {
  return {logits.row(row).begin(), logits.row(row).end()};
}

// Chains, trees of which a path is kept, roll-backs: over several pages, several sequences per
// pass.
TEST(TorchModelTest, RowsSeeTheirOwnPathInRandomPrograms) {
  Made made = MakeModel();
  std::mt19937 random(1);
  struct Sequence {
    std::unique_ptr<model::Cache> cache;
    std::vector<uint32_t> held;
  };
  std::vector<Sequence> sequences(3);
  for (Sequence& sequence : sequences) sequence.cache = *made.model->NewCache(700);
  for (int pass = 0; pass < 200; ++pass) {
    std::vector<std::vector<uint32_t>> tokens(sequences.size());
    std::vector<std::vector<int>> parents(sequences.size());
    std::vector<model::ForwardPart> parts;
    for (size_t i = 0; i < sequences.size(); ++i) {
      Sequence& sequence = sequences[i];
      const int room = 700 - static_cast<int>(sequence.held.size());
      const int rows = std::min(room, 1 + static_cast<int>(random() % 20));
      if (rows == 0) {
        sequence.cache->Truncate(10);
        sequence.held.resize(10);
        continue;
      }
      tokens[i] = RandomTokens(random, rows);
      if (random() % 2 == 0) parents[i] = model::testing::RandomTree(random, rows);
      parts.push_back({sequence.cache.get(), tokens[i], 0, parents[i]});
    }
    const auto logits = made.model->Forward(parts);
    ASSERT_TRUE(logits.ok()) << logits.status();
    int row = 0;
    for (size_t i = 0; i < sequences.size(); ++i) {
      Sequence& sequence = sequences[i];
      std::vector<int> kept;
      for (int at = 0; at < static_cast<int>(tokens[i].size()); ++at, ++row) {
        std::vector<int> path;
        for (int node = at; node >= 0; node = parents[i].empty() ? node - 1 : parents[i][node]) {
          path.insert(path.begin(), node);
        }
        std::vector<uint32_t> seen = sequence.held;
        for (int node : path) seen.push_back(tokens[i][node]);
        ASSERT_EQ(RowOf(*logits, row), LogitsOf(seen)) << "pass " << pass << ", row " << at;
        if (random() % 3 != 0 || kept.empty()) kept = path;
      }
      if (tokens[i].empty()) continue;
      sequence.cache->Keep(kept);
      for (int node : kept) sequence.held.push_back(tokens[i][node]);
      ASSERT_EQ(sequence.cache->length(), static_cast<int>(sequence.held.size()));
    }
  }
  EXPECT_GT(made.step->copies, 0);
  EXPECT_GT(made.step->moved, static_cast<size_t>(made.step->copies)) << "many cells at once";
}

// However many sequences keep how much of their trees.
TEST(TorchModelTest, OneMoveAPassForAllCells) {
  Made made = MakeModel();
  const std::vector<uint32_t> tokens = {1, 2, 3, 4};
  const std::vector<int> parents = {-1, -1, 1, 2};
  std::vector<std::unique_ptr<model::Cache>> caches;
  std::vector<model::ForwardPart> parts;
  for (int i = 0; i < 8; ++i) {
    caches.push_back(*made.model->NewCache(20));
    parts.push_back({caches.back().get(), tokens, 4, parents});
  }
  ASSERT_TRUE(made.model->Forward(parts).ok());
  for (const auto& cache : caches) cache->Keep({1, 2, 3});
  EXPECT_EQ(made.step->copies, 0) << "they wait for the next pass";
  const auto logits = made.model->Forward({{caches[5].get(), {7}, 0}});
  ASSERT_TRUE(logits.ok()) << logits.status();
  EXPECT_EQ(RowOf(*logits, 0), LogitsOf({2, 3, 4, 7}));
  EXPECT_EQ(made.step->copies, 1);
  EXPECT_EQ(made.step->moved, 24u);
}

// A scatter that begins before the gather has ended, a cell too far, and none at all.
TEST(TorchModelTest, TheSelfCheckFindsCellsThatMoveWrongly) {
  const auto failures = [](WrongMoves wrong_moves) {
    const Made device = MakeModel();
    const Made reference = MakeModel();
    device.step->wrong_moves = std::move(wrong_moves);
    const auto results = CheckModel(*device.model, *reference.model);
    EXPECT_EQ(device.step->copies, 1);
    return std::string(FirstFailures(results).message());
  };
  EXPECT_EQ(failures({}), "");
  const std::string found = "trees: behind a path that was kept 3 of 3 rows have other bits";
  EXPECT_THAT(failures([](absl::Span<const CellMove> moves, Cells& cells) {
                for (size_t i = moves.size(); i-- > 0;) cells[moves[i].to] = cells[moves[i].from];
              }),
              StartsWith(found));
  EXPECT_THAT(failures([](absl::Span<const CellMove> moves, Cells& cells) {
                const Cells before = cells;
                for (const CellMove& move : moves) cells[move.to + 1] = before.at(move.from);
              }),
              StartsWith(found));
  EXPECT_THAT(failures([](absl::Span<const CellMove>, Cells&) {}), StartsWith(found));
}

TEST(TorchModelTest, LogitsOfTheRowsThatAskForThem) {
  Made made = MakeModel();
  auto cache = *made.model->NewCache(10);
  const std::vector<uint32_t> tokens = {4, 5, 6};
  auto logits = made.model->Forward({{cache.get(), tokens, 3}});
  ASSERT_TRUE(logits.ok()) << logits.status();
  EXPECT_EQ(logits->rows, 0);
  cache->Truncate(1);
  logits = made.model->Forward({{cache.get(), {7, 8}, 1}});
  ASSERT_TRUE(logits.ok()) << logits.status();
  ASSERT_EQ(logits->rows, 1);
  EXPECT_EQ(RowOf(*logits, 0), LogitsOf({4, 7, 8}));
}

TEST(TorchModelTest, PagesAreSharedWithinAScope) {
  Made made = MakeModel();
  const int64_t free = made.model->room()->free;
  std::vector<uint32_t> tokens;
  for (uint32_t i = 0; i < 300; ++i) tokens.push_back(i % 50);
  auto first = *made.model->NewCache(300);
  EXPECT_EQ(made.model->room()->free, free - 2 * model::cpu::kPageTokens);
  for (size_t at = 0; at < tokens.size(); at += 60) {
    ASSERT_TRUE(
        made.model->Forward({{first.get(), absl::MakeSpan(tokens).subspan(at, 60), 60}}).ok());
  }
  made.model->Share(*first, {"a", tokens});
  auto other = *made.model->NewCache(300);
  EXPECT_EQ(made.model->Recall(*other, {"b", tokens}), 0);
  auto second = *made.model->NewCache(300);
  EXPECT_EQ(made.model->Recall(*second, {"a", tokens}), 256);
  const auto rest = absl::MakeSpan(tokens).subspan(256);
  auto logits = made.model->Forward({{second.get(), rest, static_cast<int>(rest.size()) - 1}});
  ASSERT_TRUE(logits.ok()) << logits.status();
  EXPECT_EQ(RowOf(*logits, 0), LogitsOf(tokens));
}

TEST(TorchModelTest, WhatADecoderRefusesIsRefusedAndNothingIsChanged) {
  Made made = MakeModel();
  auto cache = *made.model->NewCache(4);
  EXPECT_TRUE(absl::IsInvalidArgument(made.model->NewCache(kContext + 1).status()));
  EXPECT_TRUE(absl::IsResourceExhausted([&] {
    std::vector<std::unique_ptr<model::Cache>> taken;
    for (;;) {
      auto next = made.model->NewCache(kContext);
      if (!next.ok()) return next.status();
      taken.push_back(*std::move(next));
    }
  }()));
  const std::vector<uint32_t> five = {1, 2, 3, 4, 5};
  const std::vector<uint32_t> unknown = {kVocabulary};
  for (const auto& tokens : {five, unknown}) {
    EXPECT_TRUE(absl::IsInvalidArgument(made.model->Forward({{cache.get(), tokens, 0}}).status()));
    EXPECT_EQ(cache->length(), 0);
  }
}

TEST(TorchModelTest, WhatTheDeviceFailsAtIsTold) {
  Made made = MakeModel();
  auto cache = *made.model->NewCache(20);
  made.step->failure = absl::InternalError("LibTorch failed");
  const std::vector<uint32_t> tokens = {1, 2, 3};
  EXPECT_EQ(made.model->Forward({{cache.get(), tokens, 0}}).status(), made.step->failure);
  made.step->failure = absl::OkStatus();
  // A tree of which the second branch is kept: a cell moves, which fails.
  const std::vector<int> parents = {-1, -1, 1};
  ASSERT_TRUE(made.model->Forward({{cache.get(), tokens, 0, parents}}).ok());
  made.step->copy_failure = absl::InternalError("no copy");
  cache->Keep({1, 2});
  EXPECT_EQ(made.model->Forward({{cache.get(), tokens, 0}}).status(), made.step->copy_failure);
}

TEST(TorchModelTest, ACacheMayOutliveItsModel) {
  Made made = MakeModel();
  auto cache = *made.model->NewCache(20);
  made.model = nullptr;
  EXPECT_EQ(cache->length(), 0);
}

}  // namespace
}  // namespace tandem::torch
