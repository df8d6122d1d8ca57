// The engine of a card against the CPU's: the same model behind both, whose logits are a function
// of the tokens that a row sees, and the judge's kernels as the host runs them.
#include "target_service/engine/torch/torch_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/acceptance/tree.h"
#include "common/base/log.h"
#include "target_service/engine/torch/torch_factories.h"
#include "tests/torch/kernels/host_card.h"
#include "tests/torch/kernels/random_rounds.h"

namespace tandem::target_service {
namespace {

using kernels::HostCard;
using kernels::JudgeFault;
using kernels::SmallTraits;
using kernels::Source;
using speculation::CandidateTree;
using speculation::SequenceSettings;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kModelVocabulary = 70;
constexpr uint32_t kVocabulary = 67;  // of these are tokens
constexpr int kRoom = 120;
constexpr int kMaxRows = 64;

// A row in 300 or so is not a distribution.
std::vector<float> LogitsOf(const std::vector<uint32_t>& seen) {
  uint32_t hash = 2166136261u;
  for (uint32_t token : seen) hash = (hash ^ (token + 1)) * 16777619u;
  std::vector<float> logits(kModelVocabulary);
  for (size_t i = 0; i < logits.size(); ++i) {
    const uint32_t mixed = (hash + static_cast<uint32_t>(i)) * 2654435761u;
    logits[i] = static_cast<float>((mixed >> 16) % 512) / 64.0f - 4.0f;
  }
  if (hash % 300 == 0) logits[hash / 300 % kVocabulary] = std::numeric_limits<float>::quiet_NaN();
  return logits;
}

// Keys are tokens. With a stream, logits come when what is on it runs.
class HashStep final : public torch::Step {
 public:
  explicit HashStep(bool on_stream) : cells_(8 * torch::kPageTokens) {
    info_.tile = 16;
    if (on_stream) info_.stream = nullptr;
  }

  const torch::StepInfo& info() const override { return info_; }
  absl::Status Run(const torch::PassRows& pass) override {
    if (!failure.ok()) return std::exchange(failure, absl::OkStatus());
    const auto cell = [&](const torch::Row& row, int64_t at) -> uint32_t& {
      return cells_[pass.pages[row.part][at / torch::kPageTokens] * torch::kPageTokens +
                    at % torch::kPageTokens];
    };
    for (const torch::Row& row : pass.rows) cell(row, row.cell) = static_cast<uint32_t>(row.token);
    std::vector<float> logits;
    for (int wanted : pass.logits_rows) {
      const torch::Row& row = pass.rows[wanted];
      std::vector<uint32_t> seen;
      for (int i = 0; i < row.visible; ++i) {
        seen.push_back(cell(row, i < row.straight ? i : row.rest[i - row.straight]));
      }
      const std::vector<float> one = LogitsOf(seen);
      logits.insert(logits.end(), one.begin(), one.end());
    }
    room_.resize(size_t{kMaxRows} * kModelVocabulary);
    computed_ = logits.size();
    const auto compute = [this, logits] {
      std::copy(logits.begin(), logits.end(), room_.begin());
      HostCard::One().milliseconds += 5;
    };
    if (info_.stream.has_value()) {
      HostCard::One().Put(compute);
    } else {
      compute();
    }
    return absl::OkStatus();
  }
  torch::DeviceLogits logits() const override { return {room_.data(), kModelVocabulary}; }
  absl::Status ReadLogits(float* logits) override {
    const bool never = false;
    HostCard::One().RunUntil(never);
    std::copy(room_.begin(), room_.begin() + static_cast<ptrdiff_t>(computed_), logits);
    return absl::OkStatus();
  }
  absl::Status MoveCells(absl::Span<const torch::CellMove> moves) override {
    const std::vector<uint32_t> before = cells_;
    for (const torch::CellMove& move : moves) cells_[move.to] = before[move.from];
    return absl::OkStatus();
  }

  absl::Status failure;  // of the next pass

 private:
  torch::StepInfo info_;
  std::vector<uint32_t> cells_;
  std::vector<float> room_;
  size_t computed_ = 0;  // of it
};

struct Made {
  std::unique_ptr<torch::TorchModel> model;
  HashStep* step = nullptr;
};

Made MakeModel(bool on_stream) {
  model::ModelInfo info;
  info.vocabulary_size = kModelVocabulary;
  info.context_length = kRoom;
  info.numerics_id = "hash";
  auto step = std::make_unique<HashStep>(on_stream);
  Made made;
  made.step = step.get();
  made.model =
      std::make_unique<torch::TorchModel>(std::move(step), kMaxRows, /*pages=*/8, std::move(info));
  return made;
}

struct OnCard {
  std::unique_ptr<TorchEngine> engine;
  HashStep* step = nullptr;
};

OnCard MakeOnCard() {
  Made made = MakeModel(/*on_stream=*/true);
  // Room for three rows at a time.
  auto judge = kernels::JudgeOnCard<SmallTraits>(kVocabulary, /*max_rows=*/3);
  return {std::make_unique<TorchEngine>(std::move(made.model), std::move(judge)), made.step};
}

std::unique_ptr<CpuEngine> MakeReference() {
  CpuEngineOptions options;
  options.vocabulary_size = kVocabulary;
  return *CpuEngine::Create(options, MakeModel(/*on_stream=*/false).model);
}

bool SameLogprobs(const std::vector<sampling::NodeLogprobs>& a,
                  const std::vector<sampling::NodeLogprobs>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return kernels::SameLogprob(x.candidate, y.candidate) &&
           kernels::SameLogprob(x.next_token, y.next_token) &&
           std::equal(x.top.begin(), x.top.end(), y.top.begin(), y.top.end(),
                      [](const auto& p, const auto& q) {
                        return p.token == q.token && kernels::SameBits(p.logprob, q.logprob);
                      });
  });
}

void ExpectSame(const PartResult& got, const PartResult& wanted) {
  ASSERT_EQ(got.status, wanted.status);
  if (!wanted.status.ok()) return;
  ASSERT_EQ(got.entries.size(), wanted.entries.size());
  for (size_t i = 0; i < wanted.entries.size(); ++i) {
    EXPECT_TRUE(
        kernels::SameBits(got.entries[i].accept_probability, wanted.entries[i].accept_probability));
    EXPECT_EQ(got.entries[i].next_token, wanted.entries[i].next_token);
  }
  EXPECT_EQ(got.path, wanted.path);
  EXPECT_TRUE(SameLogprobs(got.logprobs, wanted.logprobs));
  EXPECT_TRUE(SameLogprobs(got.prompt_logprobs, wanted.prompt_logprobs));
}

// A sequence of both engines, and the part of it that comes next.
struct Sequence {
  std::unique_ptr<EngineSequence> on_card;
  std::unique_ptr<EngineSequence> reference;
  std::shared_ptr<const SequenceSettings> settings;
  std::vector<uint32_t> held;

  std::vector<uint32_t> tokens;
  std::vector<uint32_t> targets;
  CandidateTree block;
  bool judged = false;
  int start = 0;
  bool flies = false;

  PassPart Part(EngineSequence* sequence) const {
    PassPart part;
    part.sequence = sequence;
    part.settings = settings;
    part.start = start;
    part.tokens = tokens;
    part.block = judged ? &block : nullptr;
    part.prompt_targets = targets;
    return part;
  }
};

// The block as a tree, most of whose nodes are likely where they stand.
void GrowTree(Source& random, Sequence& sequence) {
  CandidateTree& block = sequence.block;
  const size_t committed = sequence.held.size() - block.size();
  const auto path_to = [&](uint32_t node) {
    std::vector<uint32_t> path;
    for (; node > 0; node = block.parents[node - 1]) path.push_back(block.tokens[node - 1]);
    std::vector<uint32_t> seen(sequence.held.begin(),
                               sequence.held.begin() + static_cast<ptrdiff_t>(committed));
    seen.insert(seen.end(), path.rbegin(), path.rend());
    return seen;
  };
  for (uint32_t i = 0; i < block.size(); ++i) {
    block.parents.push_back(random.Below(i + 1));
    if (!random.OneIn(4)) {
      block.tokens[i] = sampling::ArgMax(LogitsOf(path_to(block.parents[i])), kVocabulary);
    }
    const auto has_equal_sibling = [&] {
      for (uint32_t j = 0; j < i; ++j) {
        if (block.parents[j] == block.parents[i] && block.tokens[j] == block.tokens[i]) return true;
      }
      return false;
    };
    while (has_equal_sibling()) block.tokens[i] = random.Below(kVocabulary);
    sequence.held[committed + i] = block.tokens[i];
    sequence.tokens[sequence.tokens.size() - block.size() + i] = block.tokens[i];
  }
}

void NextPart(Source& random, Sequence& sequence) {
  if (sequence.settings == nullptr || random.OneIn(6)) {
    sequence.settings =
        std::make_shared<const SequenceSettings>(kernels::RandomSettings(random, kVocabulary));
  }
  const auto held = static_cast<uint32_t>(sequence.held.size());
  sequence.start = static_cast<int>(held - std::min(held, random.Below(8)));
  if (sequence.start > kRoom - 16) sequence.start = static_cast<int>(random.Below(9));
  sequence.held.resize(static_cast<size_t>(sequence.start));
  sequence.tokens = random.Tokens(1 + random.Below(5), kVocabulary);
  sequence.held.insert(sequence.held.end(), sequence.tokens.begin(), sequence.tokens.end());
  sequence.targets.clear();
  if (sequence.settings->logprobs.has_value() && random.OneIn(2)) {
    sequence.targets = {sequence.tokens.begin() + 1, sequence.tokens.end()};
  }
  sequence.judged = !random.OneIn(5);
  sequence.block = {};
  if (!sequence.judged) return;
  const bool has_q = random.OneIn(2);
  for (uint32_t i = random.Below(5); i > 0; --i) {
    const std::vector<float> logits = LogitsOf(sequence.held);
    uint32_t candidate = random.Below(kVocabulary);
    if (!random.OneIn(3)) candidate = sampling::ArgMax(logits, kVocabulary);
    if (random.OneIn(20)) candidate = kVocabulary + random.Below(3);  // no token
    sequence.block.tokens.push_back(candidate);
    if (has_q) sequence.block.q.push_back(kernels::RandomQ(random, candidate, kVocabulary));
    sequence.held.push_back(candidate < kVocabulary ? candidate : 0);
    sequence.tokens.push_back(sequence.held.back());
  }
  if (!acceptance::HasTrees(sequence.settings->rule) || sequence.block.empty()) return;
  // Ids that are not a token are refused in trees.
  for (uint32_t& token : sequence.block.tokens) token = token < kVocabulary ? token : 0;
  if (random.OneIn(2)) GrowTree(random, sequence);
}

// What the sequence holds of a tree: the path that stands.
void KeepPath(Sequence& sequence, const std::vector<uint32_t>& path) {
  if (!sequence.judged || sequence.block.parents.empty()) return;
  sequence.held.resize(sequence.held.size() - sequence.block.size());
  for (const uint32_t node : path) sequence.held.push_back(sequence.block.tokens[node - 1]);
}

std::shared_ptr<const SequenceSettings> Greedy() {
  SequenceSettings settings;
  settings.sampling.temperature = 0;
  return std::make_shared<const SequenceSettings>(settings);
}

class TorchEngineTest : public ::testing::Test {
 protected:
  TorchEngineTest() : card_(HostCard::Fresh()) {}

  HostCard& card_;
};

// Rounds of several sequences under all rules and options, with prompts that are told, roll-backs,
// rows that are broken, and two passes in flight.
TEST_F(TorchEngineTest, VerdictsHaveTheBitsOfTheCpusEngine) {
  {
    OnCard on_card = MakeOnCard();
    const auto reference = MakeReference();
    Source random(7);
    std::vector<Sequence> sequences(6);
    for (Sequence& sequence : sequences) {
      sequence.on_card = *on_card.engine->Open(kRoom);
      sequence.reference = *reference->Open(kRoom);
    }
    struct Flight {
      std::vector<Sequence*> who;
      PassResult wanted;
    };
    std::deque<Flight> flights;
    int entries = 0, broken = 0, told = 0, trees = 0, moved = 0;
    const auto await = [&] {
      const PassResult got = on_card.engine->Await();
      ASSERT_TRUE(got.status.ok()) << got.status;
      const Flight flight = std::move(flights.front());
      flights.pop_front();
      ASSERT_EQ(got.parts.size(), flight.wanted.parts.size());
      for (size_t i = 0; i < got.parts.size(); ++i) {
        ExpectSame(got.parts[i], flight.wanted.parts[i]);
        entries += static_cast<int>(got.parts[i].entries.size());
        told += static_cast<int>(got.parts[i].prompt_logprobs.size());
        broken += !got.parts[i].status.ok();
        trees += !flight.who[i]->block.parents.empty();
        moved += got.parts[i].path.size() > 1;
        KeepPath(*flight.who[i], got.parts[i].path);
        flight.who[i]->flies = false;
      }
    };
    for (int pass = 0; pass < 400 && !HasFailure(); ++pass) {
      SCOPED_TRACE(pass);
      while (!flights.empty() &&
             (flights.size() == TorchEngine::kMaxPassesInFlight || random.OneIn(3))) {
        await();
      }
      Flight flight;
      std::vector<PassPart> here, there;
      for (Sequence& sequence : sequences) {
        if (sequence.flies || random.OneIn(2)) continue;
        NextPart(random, sequence);
        sequence.flies = true;
        flight.who.push_back(&sequence);
        here.push_back(sequence.Part(sequence.on_card.get()));
        there.push_back(sequence.Part(sequence.reference.get()));
      }
      if (here.empty()) continue;
      reference->Launch(std::move(there));
      flight.wanted = reference->Await();
      ASSERT_TRUE(flight.wanted.status.ok());
      on_card.engine->Launch(std::move(here));
      EXPECT_FALSE(card_.queue.empty()) << "it waits for the card";
      flights.push_back(std::move(flight));
    }
    while (!flights.empty()) await();
    EXPECT_GT(entries, 1000);
    EXPECT_GT(told, 100);
    EXPECT_GT(broken, 1);
    EXPECT_GT(trees, 50);
    EXPECT_GT(moved, 5);
  }
  EXPECT_EQ(card_.allocations, 0);
}

TEST_F(TorchEngineTest, FortyBytesARowComeBack) {
  OnCard on_card = MakeOnCard();
  const auto sequence = *on_card.engine->Open(kRoom);
  Sequence one;
  one.settings = Greedy();
  one.tokens = {1, 2, 3, 4};
  one.block.tokens = {2, 3, 4};
  one.judged = true;
  on_card.engine->Launch({one.Part(sequence.get())});
  EXPECT_EQ(card_.bytes_out, 0u + 4 * sizeof(kernels::RowVerdict));
  EXPECT_LE(sizeof(kernels::RowVerdict), 40u);
  const PassResult result = on_card.engine->Await();
  EXPECT_EQ(result.computed, absl::Milliseconds(5)) << "by the card's clock";

  // Nothing of it is judged.
  one.judged = false;
  one.start = 4;
  card_.bytes_out = 0;
  on_card.engine->Launch({one.Part(sequence.get())});
  EXPECT_EQ(card_.bytes_out, 0u);
  EXPECT_TRUE(on_card.engine->Await().status.ok());
}

TEST_F(TorchEngineTest, WhatItOffers) {
  OnCard on_card = MakeOnCard();
  const EngineInfo& info = on_card.engine->info();
  EXPECT_EQ(info.max_passes_in_flight, 2);
  EXPECT_THAT(info.row_buckets, ElementsAre(16, 32, 48, 64));
  EXPECT_EQ(info.rules.size(), 5u);
  EXPECT_TRUE(info.logprobs);
  EXPECT_TRUE(info.trees);
  EXPECT_EQ(info.model.vocabulary_size, kVocabulary);
  const absl::StatusOr<ProbedPass> probed = on_card.engine->Probe(40);
  ASSERT_TRUE(probed.ok()) << probed.status();
  EXPECT_EQ(probed->rows, 40);
  EXPECT_EQ(probed->computed, absl::Milliseconds(5));
  EXPECT_EQ(card_.bytes_out, 40 * sizeof(kernels::RowVerdict)) << "all rows are judged";
}

// Whether the step fails or the judge behind it: the pass fails, and the next one does not.
TEST_F(TorchEngineTest, APassThatFailsIsToldByAwait) {
  OnCard on_card = MakeOnCard();
  const auto first = *on_card.engine->Open(kRoom);
  const auto second = *on_card.engine->Open(kRoom);
  Sequence one;
  one.settings = Greedy();
  one.tokens = {1, 2};
  one.judged = true;
  for (const bool by_step : {true, false}) {
    if (by_step) {
      on_card.step->failure = absl::InternalError("LibTorch failed");
    } else {
      card_.failing_launches = 1;
    }
    on_card.engine->Launch({one.Part(first.get())});
    on_card.engine->Launch({one.Part(second.get())});
    EXPECT_EQ(on_card.engine->Await().status.code(), absl::StatusCode::kInternal);
    const PassResult next = on_card.engine->Await();
    ASSERT_TRUE(next.status.ok()) << next.status;
    EXPECT_EQ(next.parts[0].entries.size(), 1u);
  }
}

class MakeTorchEngineTest : public TorchEngineTest {
 protected:
  ~MakeTorchEngineTest() override { SmallTraits::kFault = JudgeFault::kNone; }

  std::unique_ptr<Engine> Make(bool on_stream, const JudgeSource& source) {
    const base::ScopedLogSink sink(
        [this](const base::LogEntry& entry) { absl::StrAppend(&log_, entry.message, "\n"); });
    CpuEngineOptions options;
    options.vocabulary_size = kVocabulary;
    auto engine = MakeTorchEngine(options, MakeModel(on_stream).model, source);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }
  static absl::StatusOr<std::unique_ptr<kernels::DeviceJudge>> Sound(uint32_t vocabulary_size,
                                                                     int max_rows) {
    EXPECT_EQ(max_rows, kMaxRows);
    return kernels::JudgeOnCard<SmallTraits>(vocabulary_size, max_rows);
  }

  std::string log_;
};

TEST_F(MakeTorchEngineTest, RowsAreJudgedOnTheCardIfItJudgesRightly) {
  const auto engine = Make(/*on_stream=*/true, Sound);
  EXPECT_NE(dynamic_cast<TorchEngine*>(engine.get()), nullptr);
  EXPECT_EQ(engine->info().model.numerics_id, "hash/judge-kernel");
  EXPECT_THAT(engine->info().switched_off, IsEmpty());
  EXPECT_EQ(log_, "");
}

// However large the vocabulary, up to a GiB.
TEST_F(MakeTorchEngineTest, AJudgeHasRoomForAllRowsOfAPass) {
  using kernels::DeviceJudge;
  const size_t row = DeviceJudge::WorkspaceBytes(151'936, 1);
  EXPECT_EQ(row, 151'936u * 16 + 151'936 / 64 * sizeof(kernels::RowPart));
  EXPECT_EQ(DeviceJudge::WorkspaceBytes(151'936, 320), 320 * row);
  EXPECT_EQ(DeviceJudge::WorkspaceBytes(151'936, 2048), 425 * row) << "below a GiB";
  EXPECT_EQ(DeviceJudge::WorkspaceBytes(100'000'000, 8),
            DeviceJudge::WorkspaceBytes(100'000'000, 1));
  const auto turns = [this](int max_rows) {
    const auto judge = kernels::JudgeOnCard<SmallTraits>(kVocabulary, max_rows);
    kernels::JudgeFlight flight(*judge);
    EXPECT_TRUE(flight.Begin(nullptr).ok());
    const CandidateTree block{.tokens = {1, 2, 3}};
    for (uint32_t row = 0; row < 12; row += 4) {
      flight.tables().AddBlock(*Greedy(), block, /*committed=*/1, nullptr, row);
    }
    const std::vector<float> logits(12 * kVocabulary);
    const size_t launched = card_.launches;
    EXPECT_TRUE(flight.Judge(logits.data(), kVocabulary).ok());
    EXPECT_TRUE(flight.Await().ok());
    return (card_.launches - launched) / 7;
  };
  EXPECT_EQ(turns(12), 1u);
  EXPECT_EQ(turns(5), 3u);
}

// A judge that draws otherwise, and one that is not there.
TEST_F(MakeTorchEngineTest, ElseLogitsAreCopied) {
  for (JudgeFault fault : {JudgeFault::kNoiseOfOtherToken, JudgeFault::kResidualIgnoresQ,
                           JudgeFault::kCandidatesUnseen, JudgeFault::kNone}) {
    SmallTraits::kFault = fault;
    log_.clear();
    const auto engine = Make(/*on_stream=*/true, [fault](uint32_t vocabulary_size, int max_rows) {
      if (fault != JudgeFault::kNone) return Sound(vocabulary_size, max_rows);
      return absl::StatusOr<std::unique_ptr<kernels::DeviceJudge>>(
          absl::FailedPreconditionError("there is no NVRTC"));
    });
    EXPECT_NE(dynamic_cast<CpuEngine*>(engine.get()), nullptr) << static_cast<int>(fault);
    EXPECT_EQ(engine->info().model.numerics_id, "hash/judge-host");
    EXPECT_THAT(engine->info().switched_off, ElementsAre("judge-kernel"));
    EXPECT_THAT(log_, HasSubstr("device_path_switched_off path=judge-kernel failed="));
    EXPECT_THAT(log_, HasSubstr(fault == JudgeFault::kNone ? "there is no NVRTC" : "differs"));
  }
}

TEST_F(MakeTorchEngineTest, AProcessorsModelHasTheCpusEngine) {
  const auto engine = Make(/*on_stream=*/false, [](uint32_t, int) {
    return absl::StatusOr<std::unique_ptr<kernels::DeviceJudge>>(absl::InternalError("asked"));
  });
  EXPECT_NE(dynamic_cast<CpuEngine*>(engine.get()), nullptr);
  EXPECT_EQ(engine->info().model.numerics_id, "hash");
  EXPECT_THAT(engine->info().switched_off, IsEmpty());
}

}  // namespace
}  // namespace tandem::target_service
