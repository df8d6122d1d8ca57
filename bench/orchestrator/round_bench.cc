// The orchestrator's own time for a round: everything between a block's arrival, its Step, the
// verdict's arrival and the next Advance, without transport and models.
#include <benchmark/benchmark.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/concurrency/instant.h"
#include "orchestrator/draft/draft_wire.h"
#include "orchestrator/loop/speculation_loop.h"
#include "orchestrator/verify/target_pace.h"
#include "orchestrator/verify/verify_wire.h"

namespace tandem::orchestrator {
namespace {

constexpr uint32_t kVocabulary = 32000;
constexpr uint32_t kRounds = 400;  // then a new request begins

class NoTimers final : public LoopTimers {
 public:
  void Set(LoopTimer, absl::Duration) override {}
  void Cancel(LoopTimer) override {}
};

class FixedClock final : public concurrency::Clock {
 public:
  concurrency::Instant Now() const override { return concurrency::Instant(absl::Hours(1)); }
};

class Letters final : public Detokenizer {
 public:
  absl::StatusOr<std::string> Feed(uint32_t id) override {
    return std::string(1, static_cast<char>('a' + id % 26));
  }
  std::string Finish() override { return {}; }
};

class Reader final : public DeltaSink {
 public:
  void Send(TextDelta) override { ++waiting; }
  void SendPrompt(PromptLogprobs) override {}
  int waiting = 0;
};

// Keep what was sent last; with `wire`, as bytes, as it would travel.
struct Draft final : DraftSession {
  void Open(const DraftOpen& open) override { attempt = open.attempt; }
  void Advance(const DraftAdvance& advance) override {
    round = advance.round;
    wanted = advance.max_draft_tokens;
    if (wire) benchmark::DoNotOptimize(ToWire(base::SequenceId{1}, advance).SerializeAsString());
  }
  void Submitted(base::BlockId, uint32_t) override {}
  void Close() override {}
  NextDraft GiveUp(DraftLoss, absl::Duration) override { return NextDraft::kLater; }
  bool wire = false;
  base::DraftAttempt attempt{};
  uint64_t round = 0;
  uint32_t wanted = 0;
};

struct Target final : VerifySession {
  SeekResult Seek() override {
    return {SeekResult::Kind::kTarget,
            {.incarnation = base::Incarnation{1},
             .name = "here",
             .model_id = "model",
             .numerics_id = "numerics",
             .vocabulary_size = kVocabulary,
             .max_draft_tokens = 16,
             .pace = pace},
            ""};
  }
  void Leave(LeaveCause, absl::Duration) override {}
  void Submit(base::Incarnation, VerifyStep step) override {
    round = step.round;
    candidates = step.block.tokens.size();
    if (wire)
      benchmark::DoNotOptimize(ToWire(base::SequenceId{1}, std::move(step)).SerializeAsString());
  }
  void Close() override {}
  void GiveUp(base::Incarnation, const std::string&) override {}
  concurrency::Instant last_heard() const override { return {}; }
  const std::shared_ptr<TargetPace> pace = std::make_shared<TargetPace>();
  bool wire = false;
  uint64_t round = 0;
  size_t candidates = 0;
};

struct Request {
  Request(uint32_t draft_tokens, bool wire) {
    GenerationRequest request;
    request.id = "bench";
    request.prompt.assign(100, 7);
    request.rule = acceptance::Rule::kSpeculative;
    request.max_tokens = 100000;
    request.draft_tokens = draft_tokens;
    stream =
        std::make_unique<TokenStream>(request, std::make_unique<Letters>(), reader, 1024, unread);
    LoopParts parts{&draft, &target, stream.get(), &timers, &clock, &observer, {}};
    loop = std::make_unique<SpeculationLoop>(request, LoopOptions(), parts, clock.Now(),
                                             [](Ending) {});
    draft.wire = target.wire = wire;
    loop->Start();
    loop->OnDraftOpened(draft.attempt, {16, 0});
    Verdict();
  }

  void Block() {
    DraftReplyBlock reply;
    reply.round = draft.round;
    reply.block.id = base::BlockId{draft.round};
    for (uint32_t i = 0; i < draft.wanted; ++i) {
      reply.block.tokens.push_back(i);
      sampling::SparseDistribution& q = reply.block.q.emplace_back();
      for (uint32_t j = 0; j < 64; ++j) {
        q.ids.push_back(i + j);
        q.weights.push_back(65535 - j);
      }
    }
    loop->OnBlock(draft.attempt, std::move(reply));
  }

  void Verdict() {
    VerifyReply reply;
    reply.round = target.round;
    reply.entries.assign(target.candidates + 1, {0.8, 3});
    reply.entries[0].accept_probability = 1;
    loop->OnVerdict(base::Incarnation{1}, std::move(reply));
    while (reader.waiting > 0) {
      --reader.waiting;
      stream->OnWritten();
    }
  }

  NoTimers timers;
  FixedClock clock;
  Reader reader;
  Draft draft;
  Target target;
  RoundObserver observer;
  UnreadCall unread{nullptr};
  std::unique_ptr<TokenStream> stream;
  std::unique_ptr<SpeculationLoop> loop;
};

void BM_Round(benchmark::State& state) {
  const auto draft_tokens = static_cast<uint32_t>(state.range(0));
  const bool wire = state.range(1) != 0;
  std::optional<Request> request;
  uint32_t rounds = kRounds;
  for (auto _ : state) {
    if (rounds == kRounds) {
      state.PauseTiming();
      request.emplace(draft_tokens, wire);
      rounds = 0;
      state.ResumeTiming();
    }
    ++rounds;
    if (draft_tokens > 0) request->Block();
    request->Verdict();
  }
}
BENCHMARK(BM_Round)->ArgNames({"draft_tokens", "wire"})->ArgsProduct({{0, 4, 16}, {0, 1}});

}  // namespace
}  // namespace tandem::orchestrator

BENCHMARK_MAIN();
