// A speculation loop with a target and a draft of table models, all in memory, one event at a time.
//
//   LoopHarness harness(Request(…));
//   harness.target.on_step = …;      // the script: what goes wrong
//   harness.Run();                   // events in order, time moves only when nothing else happens
//   EXPECT_EQ(harness.output(), harness.PlainText());
//
// The fakes keep the contract of the wire as strictly as the services do, and fail the test when
// the loop breaks it: hashes, rising rounds, one unanswered Step, options with keep = 0 only, and
// of a draft what its options and shapes may be.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "gtest/gtest.h"
#include "orchestrator/loop/speculation_loop.h"
#include "orchestrator/verify/target_pace.h"
#include "tests/orchestrator/harness/table_sequence.h"
#include "tests/support/fake_clock.h"
#include "tests/support/table_model.h"

namespace tandem::orchestrator {

using Event = std::function<void()>;

class FakeLoopTimers final : public LoopTimers {
 public:
  explicit FakeLoopTimers(testing::FakeClock& clock) : clock_(clock) {}
  void Set(LoopTimer timer, absl::Duration delay) override {
    due_[timer] = clock_.Now() + std::max(delay, absl::ZeroDuration());
  }
  void Cancel(LoopTimer timer) override { due_.erase(timer); }

  bool is_set(LoopTimer timer) const { return due_.contains(timer); }
  absl::Duration left(LoopTimer timer) const { return due_.at(timer) - clock_.Now(); }
  // Infinite when none is set.
  concurrency::Instant next_due() const;
  // The next one to fire, taken out; the clock moves there.
  std::optional<LoopTimer> TakeNext();
  size_t size() const { return due_.size(); }

 private:
  testing::FakeClock& clock_;
  std::map<LoopTimer, concurrency::Instant> due_;
};

// The target: a table model, sequences, and the checks of the wire.
class FakeTarget final : public VerifySession {
 public:
  // What to do with a Step's answer. kHold: keep it until ReleaseHeld.
  enum class Do { kAnswer, kDrop, kHold };

  FakeTarget(testing::FakeClock& clock, testing::TableModel& model)
      : clock_(clock), model_(model), held_(model) {}

  SeekResult Seek() override;
  void Leave(LeaveCause cause, absl::Duration retry_after) override;
  void Submit(base::Incarnation incarnation, VerifyStep step) override;
  void Close() override;
  bool OfferSlot() override { return others_wait; }
  void GiveUp(base::Incarnation incarnation, const std::string& reason) override;
  concurrency::Instant last_heard() const override { return last_heard_; }

  // When the loop may try for a slot again; empty: it does not wait for one.
  std::optional<concurrency::Instant> slot_retry() const { return slot_retry_; }
  void RetrySlot();  // its time has come

  // The script; called with the answer that would be given.
  std::function<Do(const VerifyStep&, VerifyReply&)> on_step;
  std::function<void(const VerifyStep&)> on_chained;  // called with each chained Step

  void Connect();  // a new stream, nothing held
  void Disconnect(const std::string& reason = "cut");
  void ReleaseHeld();
  bool connected() const { return connected_; }
  void set_last_heard(concurrency::Instant when) { last_heard_ = when; }
  // Queues an answer of the current stream and sequence, as often as the script likes.
  void Push(VerifyReply reply) { Deliver({incarnation, sequence_, std::move(reply)}); }

  VerifyEvents* events = nullptr;
  std::deque<Event> queue;  // to be delivered in order
  std::string model_id = "target-model";
  uint32_t max_draft_tokens = 16;  // a longer block is refused
  uint32_t max_nodes = 0;          // of a tree; 0: it takes chains alone
  bool chains = false;             // it takes chained Steps
  bool draws_again = false;        // a fault (table_sequence.h)
  bool reconnects = true;          // after GiveUp
  bool others_wait = false;        // for a slot

  base::Incarnation incarnation{};
  int steps = 0;           // but for chained ones
  int chained_steps = 0;   // and of these:
  int chained_on = 0;      // with which the text may go on
  int whole_prefixes = 0;  // Steps with keep = 0
  int closings = 0;
  std::vector<LeaveCause> left;
  int open_sequences() const { return held_.open() ? 1 : 0; }
  const std::shared_ptr<TargetPace> pace = std::make_shared<TargetPace>();
  absl::Duration step_time = absl::Milliseconds(10);

 private:
  struct Held {
    base::Incarnation incarnation;
    uint64_t sequence;
    VerifyReply reply;
  };
  void Deliver(Held held);
  VerifyReply AnswerChained(const VerifyStep& step);

  testing::FakeClock& clock_;
  testing::TableModel& model_;
  bool connected_ = false;
  std::string reason_ = "not connected";
  bool seeking_ = false;
  std::optional<concurrency::Instant> slot_retry_;
  concurrency::Instant last_heard_;

  TableSequence held_;                  // the one sequence
  std::optional<uint64_t> unanswered_;  // the round of a Step that is not chained
  VerifyStep last_step_;                // as it was answered, and how
  VerifyReply last_reply_;
  uint64_t sequence_ = 1;  // another one after Close; what answers an older one reaches nobody
  std::vector<Held> held_replies_;
};

// The draft: another table model; samples from sparse q, or proposes greedily for greedy requests.
class FakeDraft final : public DraftSession {
 public:
  enum class Do { kAnswer, kDrop, kHold };

  explicit FakeDraft(testing::TableModel& model) : model_(model) {}

  void Open(const DraftOpen& open) override;
  void Advance(const DraftAdvance& advance) override;
  void Submitted(base::BlockId block_id, uint32_t nodes) override;
  void Close() override;
  NextDraft GiveUp(DraftLoss loss, absl::Duration at_least) override;

  // Other drafts that may take this one's place; they are as good, and played by this object, too.
  int others = 0;
  std::function<Do(const DraftAdvance&, DraftReplyBlock&)> on_advance;
  bool refuses = false;             // at Open
  bool unreachable = false;         // at Open
  bool silent_open = false;         // Open is never answered
  uint32_t max_nodes = 0;           // of its trees; 0: it makes chains alone
  bool ends_by_confidence = false;  // that it says so; its own chains are whole
  base::BlockId ids_after{};        // the ids of blocks begin so at Open
  bool prepares = false;  // the three likeliest outcomes of each node, as many as it is asked for
  // What becomes of a block that was prepared; empty: it is sent as it is. False: it is not sent.
  std::function<bool(PreparedBlock&)> on_prepared;

  void Break();  // the stream
  void ReleaseHeld();

  DraftEvents* events = nullptr;
  std::deque<Event> queue;
  const DraftOpen& opened() const { return open_; }  // the last one
  int opens = 0;
  int advances = 0;
  int submitted = 0;
  int taken = 0;  // prepared blocks that were submitted
  bool is_open = false;

 private:
  DraftReplyBlock Answer(const DraftAdvance& advance);
  CandidateTree Chain(std::vector<uint32_t> context, uint32_t tokens);
  std::vector<sampling::RankedToken> Ranks(const std::vector<uint32_t>& context,
                                           size_t count) const;
  void Prepare();
  // Two siblings per level, the next ranks of the race; the first one's children follow.
  CandidateTree Tree(const DraftAdvance& advance, std::vector<uint32_t> context) const;

  testing::TableModel& model_;
  DraftOpen open_;
  std::vector<uint32_t> tokens_;
  uint64_t last_round_ = 0;
  base::BlockId last_block_{};
  CandidateTree base_;  // what the client verifies, after tokens_
  uint32_t max_outcomes_ = 0, max_draft_tokens_ = 0;
  std::vector<PreparedBlock> prepared_;  // on base_
  bool unanswered_ = false;
  std::vector<DraftReplyBlock> held_replies_;
};

// One letter a token, "abc…".
class LetterDetokenizer final : public Detokenizer {
 public:
  absl::StatusOr<std::string> Feed(uint32_t id) override {
    return std::string(1, static_cast<char>('a' + id % 26));
  }
  std::string Finish() override { return {}; }
};

// A reader: reads at once, or when told.
class FakeReader final : public DeltaSink {
 public:
  void Send(TextDelta delta) override {
    text += delta.text;
    ids.insert(ids.end(), delta.ids.begin(), delta.ids.end());
    logprobs.insert(logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
    runs.insert(runs.end(), delta.runs.begin(), delta.runs.end());
    ++waiting;
  }
  void SendPrompt(PromptLogprobs piece) override {
    EXPECT_TRUE(ids.empty()) << "the prompt comes before the text";
    prompt.push_back(std::move(piece));
    ++waiting;
  }
  std::string text;
  std::vector<uint32_t> ids;
  std::vector<TokenLogprobs> logprobs;
  std::vector<TextRun> runs;
  std::vector<PromptLogprobs> prompt;
  size_t waiting = 0;
  bool reads = true;
};

// Keeps what is told of each round; `records` outlives it.
class RoundRecorder final : public RoundObserver {
 public:
  explicit RoundRecorder(std::vector<RoundRecord>& records) : records_(records) {}
  void OnDecided(const RoundRecord& round) override { records_.push_back(round); }

 private:
  std::vector<RoundRecord>& records_;
};

struct HarnessOptions {
  LoopOptions loop;
  CommonLength* lengths = nullptr;     // as in LoopParts
  CommonDrafters* drafters = nullptr;  // likewise
  bool with_draft = true;
  uint32_t vocabulary_size = 8;
  double draft_noise = 0.5;
  std::vector<uint32_t> eos_token_ids;
  bool connected = true;                                      // the target, at the start
  std::function<std::unique_ptr<Detokenizer>()> detokenizer;  // empty: LetterDetokenizer
  // Who watches the rounds; empty: nobody.
  std::function<std::unique_ptr<RoundObserver>(const testing::FakeClock& clock)> watch;
};

class LoopHarness {
 public:
  explicit LoopHarness(GenerationRequest request, HarnessOptions options = {});

  void Start() { loop->Start(); }
  // Delivers one event, the draft's before the target's. False: there is none.
  bool DeliverOne();
  void DeliverAll();
  // Delivers all, moves to the next alarm, and so on until the request ends or nothing can happen.
  void Run(int max_events = 100000);
  // Lets the reader catch up by all that waits.
  void Read();
  bool FireNextTimer();

  // The ids of the target alone, from the same request.
  std::vector<uint32_t> PlainIds() const;
  const std::vector<uint32_t>& output() const { return reader.ids; }
  uint32_t plain_rounds(PlainCause cause) const {
    return ending->counts.plain_rounds[static_cast<int>(cause)];
  }

  const GenerationRequest request;
  const HarnessOptions options;
  testing::FakeClock clock;
  FakeLoopTimers timers;
  testing::TableModel target_model;
  testing::TableModel draft_model;
  FakeTarget target;
  FakeDraft draft;
  FakeReader reader;
  std::unique_ptr<RoundObserver> observer;
  std::unique_ptr<DraftSession> draft_session;  // to `draft`, as the observer wraps it
  std::unique_ptr<VerifySession> verify_session;
  UnreadCall unread{nullptr};
  std::unique_ptr<TokenStream> stream;
  std::unique_ptr<SpeculationLoop> loop;
  std::optional<Ending> ending;
  int endings = 0;
};

// A greedy request of 32 tokens after a short prompt.
GenerationRequest SmallRequest(std::optional<uint32_t> draft_tokens = 4, double temperature = 0);

}  // namespace tandem::orchestrator
