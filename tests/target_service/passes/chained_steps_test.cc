// Steps that the target goes on with by itself: the same entries as if the client had sent each
// behind the verdict before, whatever the client assumed, overrules and closes.
#include "target_service/passes/chained_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/target_service/engine/table_engine.h"
#include "tests/target_service/every_option.h"

namespace tandem::target_service {
namespace {

using Verdicts = std::vector<internal::v1::Verdict>;
using Tokens = std::vector<uint32_t>;

constexpr uint32_t kVocabulary = 8;
const Tokens kPrompt = {1, 2, 3};

struct Assumed {
  uint32_t node, next_token;
  Tokens candidates;
};

internal::v1::Step ChainedStep(uint64_t round, uint64_t after, const std::vector<Assumed>& blocks) {
  internal::v1::Step step;
  step.set_sequence(1);
  step.set_round(round);
  step.set_after(after);
  for (const Assumed& block : blocks) {
    internal::v1::PreparedBlock& sent = *step.add_prepared();
    sent.set_node(block.node);
    sent.set_next_token(block.next_token);
    sent.mutable_candidates()->Add(block.candidates.begin(), block.candidates.end());
  }
  return step;
}

class ChainedSteps : public ::testing::TestWithParam<int> {
 protected:
  const RuleCase& rule() const { return EveryRule()[static_cast<size_t>(GetParam())]; }
  internal::v1::SequenceOptions Options() const { return EveryOption(rule(), 3); }

  // The target's own tokens after `text`.
  Tokens Own(Tokens text, size_t count) const {
    Tokens own;
    while (own.size() < count) {
      own.push_back(*target_.Expected(Options(), text, {})[0].next_token);
      text.push_back(own.back());
    }
    return own;
  }
  // The first Step: the prompt and a block of two, of which the first stands.
  internal::v1::Step First() const {
    const Tokens own = Own(kPrompt, 2);
    return FirstStep(1, kPrompt, {{own[0], (own[1] + 1) % kVocabulary}}, Options());
  }
  // What is true of it, with a block of the two tokens that come next.
  Assumed True() const {
    const Tokens own = Own(kPrompt, 4);
    return {1, own[1], {own[2], own[3]}};
  }
  Assumed False() const { return {1, (True().next_token + 1) % kVocabulary, {1, 2}}; }
  Tokens After() const {
    Tokens text = kPrompt;
    for (const uint32_t token : Own(kPrompt, 2)) text.push_back(token);
    return text;
  }
  // Runs the device until the round is answered.
  internal::v1::Verdict VerdictOf(Harness::Stream& stream, uint64_t round) {
    while (true) {
      for (const internal::v1::Verdict& verdict : stream.sink->Take()) {
        verdicts_[verdict.round()] = verdict;
      }
      if (verdicts_.contains(round)) return verdicts_[round];
      if (!target_.device->RunOnce()) return {};
    }
  }
  static std::vector<internal::v1::Status> StatusesOf(const Verdicts& verdicts) {
    std::vector<internal::v1::Status> statuses;
    for (const internal::v1::Verdict& verdict : verdicts) statuses.push_back(verdict.status());
    return statuses;
  }

  Harness target_{{}, {.vocabulary_size = kVocabulary}};
  Harness::Stream stream_ = target_.Connect();
  std::map<uint64_t, internal::v1::Verdict> verdicts_;  // by round
};

constexpr internal::v1::Status kOk = internal::v1::STATUS_OK, kStale = internal::v1::STATUS_STALE,
                               kInvalid = internal::v1::STATUS_INVALID;
using Statuses = std::vector<internal::v1::Status>;

TEST_P(ChainedSteps, TheBlockWhoseOutcomeCameTrueIsJudgedWithoutTheClient) {
  Harness::Send(stream_, {First(), ChainedStep(2, 1, {False(), True()})});
  target_.RunAll();
  const Verdicts verdicts = stream_.sink->Take();
  ASSERT_EQ(StatusesOf(verdicts), (Statuses{kOk, kOk}));
  EXPECT_EQ(verdicts[0].round(), 1u);
  EXPECT_EQ(verdicts[1].round(), 2u);
  EXPECT_EQ(verdicts[1].pass_id(), verdicts[0].pass_id() + 1);
  EXPECT_TRUE(SameEntries(verdicts[1], target_.Expected(Options(), After(), True().candidates)));
}

TEST_P(ChainedSteps, MayComeAfterTheVerdict) {
  ASSERT_EQ(target_.Ask(stream_, First()).status(), kOk);
  const internal::v1::Verdict verdict = target_.Ask(stream_, ChainedStep(2, 1, {True(), False()}));
  ASSERT_EQ(verdict.status(), kOk);
  EXPECT_TRUE(SameEntries(verdict, target_.Expected(Options(), After(), True().candidates)));
}

TEST_P(ChainedSteps, AreStaleWhereNothingCameTrue) {
  Harness::Send(stream_, {First(), ChainedStep(2, 1, {False(), {0, True().next_token, {1}}})});
  target_.RunAll();
  EXPECT_EQ(StatusesOf(stream_.sink->Take()), (Statuses{kOk, kStale}));
  const internal::v1::Verdict next = target_.Ask(stream_, MakeStep(1, 3, After(), 3, {{1, 2}}));
  EXPECT_TRUE(SameEntries(next, target_.Expected(Options(), After(), {1, 2})));
}

// Before its pass, and after.
TEST_P(ChainedSteps, AreOverruledByAnotherStep) {
  for (const int passes : {1, 2}) {
    Harness::Stream stream = target_.Connect(std::to_string(passes));
    Harness::Send(stream, {First(), ChainedStep(2, 1, {True()})});
    for (int i = 0; i < passes; ++i) target_.device->RunOnce();
    Harness::Send(stream, {MakeStep(1, 3, After(), 3, {{4, 5}})});
    target_.RunAll();
    const Verdicts verdicts = stream.sink->Take();
    ASSERT_EQ(StatusesOf(verdicts), (Statuses{kOk, passes == 1 ? kStale : kOk, kOk}));
    EXPECT_TRUE(SameEntries(verdicts[2], target_.Expected(Options(), After(), {4, 5})));
  }
}

TEST_P(ChainedSteps, AreStaleWithoutAnAnsweredStepBefore) {
  EXPECT_EQ(target_.Ask(stream_, ChainedStep(2, 1, {True()})).status(), kStale) << "not held";
  ASSERT_EQ(target_.Ask(stream_, First()).status(), kOk);
  EXPECT_EQ(target_.Ask(stream_, ChainedStep(9, 7, {True()})).status(), kStale) << "another round";
  internal::v1::Step expires = MakeStep(1, 3, After(), 3);
  expires.set_remaining_us(1);
  Harness::Send(stream_, {expires, ChainedStep(4, 3, {{0, 1, {1}}})});
  target_.clock.Advance(absl::Seconds(1));
  target_.RunAll();
  EXPECT_EQ(StatusesOf(stream_.sink->Take()), (Statuses{internal::v1::STATUS_EXPIRED, kStale}));
  Harness::Send(stream_, {MakeStep(1, 5, After(), 3), ChainedStep(6, 5, {{0, 1, {1}}})}, {1});
  target_.RunAll();
  EXPECT_EQ(StatusesOf(stream_.sink->Take()),
            (Statuses{internal::v1::STATUS_CLOSED, internal::v1::STATUS_CLOSED}));
}

TEST_P(ChainedSteps, OneMayWait) {
  Harness::Send(stream_, {First(), ChainedStep(2, 1, {True()}), ChainedStep(3, 2, {{0, 1, {1}}})});
  target_.RunAll();
  const Verdicts verdicts = stream_.sink->Take();
  ASSERT_EQ(StatusesOf(verdicts), (Statuses{kInvalid, kOk, kOk}));
  EXPECT_EQ(verdicts[0].round(), 3u);
  EXPECT_EQ(verdicts[0].problem().field(), "sequence");
}

// Any assumptions, right and wrong, at any time; the client takes what it finds, and overrules now
// and then.
TEST_P(ChainedSteps, TheTextIsTheTargetsOwn) {
  std::mt19937 random(static_cast<uint32_t>(GetParam()) + 3);
  int chained = 0, stale = 0, overruled = 0;
  for (uint64_t text_number = 1; text_number <= 20; ++text_number) {
    const std::string name = std::to_string(text_number);
    Harness::Stream stream = target_.Connect(name);
    const Tokens own = Own(kPrompt, 50);
    // Near the target's own after `from` of its tokens.
    const auto block_at = [&](size_t from) {
      Tokens block;
      for (size_t size = 1 + random() % 3; block.size() < size; ++from) {
        block.push_back(random() % 4 == 0 ? random() % kVocabulary : own[from]);
      }
      return block;
    };
    size_t done = 0;  // of own
    uint64_t round = 1;
    Tokens block = block_at(0);
    internal::v1::Step step = FirstStep(1, kPrompt, block, Options());
    bool sent = false;
    verdicts_.clear();
    while (done < 40) {
      if (!sent) Harness::Send(stream, {step});
      const uint64_t asked = step.round();
      for (int passes = static_cast<int>(random() % 2); passes > 0; --passes) {
        target_.device->RunOnce();
      }
      std::vector<Assumed> assumed;
      for (uint32_t node = 0; node <= block.size(); ++node) {
        for (const uint32_t next : {own[done + node], static_cast<uint32_t>(random() % 8)}) {
          const bool known =
              !assumed.empty() && assumed.back().node == node && assumed.back().next_token == next;
          if (!known && random() % 4 > 0)
            assumed.push_back({node, next, block_at(done + node + 1)});
        }
      }
      round = std::max(round, asked) + 1;
      const bool chains = !assumed.empty();
      if (chains) Harness::Send(stream, {ChainedStep(round, asked, assumed)});
      const internal::v1::Verdict verdict = VerdictOf(stream, asked);
      ASSERT_EQ(verdict.status(), kOk) << verdict.ShortDebugString();
      Tokens before = kPrompt;
      before.insert(before.end(), own.begin(), own.begin() + static_cast<ptrdiff_t>(done));
      ASSERT_TRUE(SameEntries(verdict, target_.Expected(Options(), before, block)));
      const acceptance::Decision decision =
          DecideOf(Options(), verdict, static_cast<uint32_t>(before.size()),
                   target_.SettingsOf(Options()).rule);
      done += decision.accepted + 1;
      ASSERT_EQ(decision.next_token, own[done - 1]);
      const auto came_true = std::find_if(assumed.begin(), assumed.end(), [&](const Assumed& one) {
        return one.node == decision.accepted && one.next_token == decision.next_token;
      });
      sent = came_true != assumed.end() && random() % 5 > 0;
      if (sent) {
        ++chained;
        block = came_true->candidates;
        step.set_round(round);
        continue;
      }
      ++(came_true != assumed.end() ? overruled : stale);
      block = block_at(done);
      Tokens text = kPrompt;
      text.insert(text.end(), own.begin(), own.begin() + static_cast<ptrdiff_t>(done));
      step = MakeStep(1, ++round, text, static_cast<uint32_t>(before.size()), block);
    }
    stream.session->OnDone(absl::CancelledError("cut"));
    target_.WaitForLingering();
  }
  EXPECT_GT(chained, 50);
  EXPECT_GT(stale, 20);
  EXPECT_GT(overruled, 10);
  EXPECT_EQ(target_.device->active_sequences(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Rules, ChainedSteps, ::testing::Values(0, 3), [](const auto& test) {
  return std::string(EveryRule()[static_cast<size_t>(test.param)].name);
});

// Passes of 8 ms with room for one round. The chained Step begins 2 ms before its time is over, and
// stands behind another sequence's round for a pass.
TEST(ChainedStepsTime, DoesNotBeginAnewWithTheStepBefore) {
  Harness* clocked = nullptr;
  testing::TableModelOptions model{.vocabulary_size = kVocabulary, .max_rows = 4};
  model.before_pass = [&](absl::Span<const model::ForwardPart>) {
    clocked->clock.Advance(absl::Milliseconds(8));
    return absl::OkStatus();
  };
  Options options;
  options.max_draft_tokens = 3;
  options.max_nodes = 0;
  Harness target(options, model);
  clocked = &target;
  const auto greedy = OptionsOf(EveryRule()[0]);
  Harness::Stream other = target.Connect("other"), stream = target.Connect("chained");
  const Tokens text = {1};
  const uint32_t own = *target.Expected(greedy, text, {})[0].next_token;
  ASSERT_EQ(target.Ask(other, FirstStep(1, text, {}, greedy)).status(), kOk);
  for (const uint64_t remaining : {10, 30}) {  // milliseconds
    internal::v1::Step chained = ChainedStep(2, 1, {{0, own, {1, 2, 3}}});
    chained.set_remaining_us(remaining * 1000);
    Harness::Send(stream, {FirstStep(1, text, {}, greedy), chained});
    Harness::Send(other, {MakeStep(1, remaining, Tokens{1, own}, 1, Tokens{1, 2, 3})});
    target.RunAll();
    const Verdicts verdicts = stream.sink->Take();
    ASSERT_EQ(verdicts.size(), 2u);
    EXPECT_EQ(verdicts[0].status(), kOk);
    EXPECT_EQ(verdicts[1].status(), remaining == 10 ? internal::v1::STATUS_EXPIRED : kOk);
    const Verdicts others = other.sink->Take();
    ASSERT_EQ(others.size(), 1u);
    EXPECT_EQ(others[0].pass_id(), verdicts[0].pass_id() + 1) << "the chained one's place";
  }
}

// Passes of 8 ms. While a chained Step is in one, the client overrules it. If it came within a
// fifth of a pass of the verdict that it read, the device waits for it after the next one, too. The
// verdict of the chained one, which the client did not wait for, does not count.
TEST(ChainedStepsTime, AStepThatOverrulesFollowsTheVerdictBefore) {
  for (const absl::Duration after : {absl::Milliseconds(1), absl::Milliseconds(3)}) {
    Harness* clocked = nullptr;
    std::function<void()> meanwhile;  // once, in the next pass
    testing::TableModelOptions model{.vocabulary_size = kVocabulary};
    model.before_pass = [&](absl::Span<const model::ForwardPart>) {
      const concurrency::Instant end = clocked->clock.Now() + absl::Milliseconds(8);
      if (auto now = std::exchange(meanwhile, nullptr)) now();
      clocked->clock.Advance(end - clocked->clock.Now());
      return absl::OkStatus();
    };
    Harness target({}, model);
    clocked = &target;
    target.device->MeasurePasses();
    const auto greedy = OptionsOf(EveryRule()[0]);
    Harness::Stream stream = target.Connect("chained"), other = target.Connect("other");
    const Tokens text = {1};
    const uint32_t own = *target.Expected(greedy, text, {})[0].next_token;
    Harness::Send(stream, {FirstStep(1, text, {}, greedy), ChainedStep(2, 1, {{0, own, {1}}})});
    target.device->RunOnce();
    meanwhile = [&] {
      target.clock.Advance(after);
      Harness::Send(stream, {MakeStep(1, 3, Tokens{1, own}, 1)});
    };
    target.device->RunOnce();
    target.device->RunOnce();
    ASSERT_EQ(stream.sink->Take().size(), 3u);
    Harness::Send(other, {FirstStep(1, text, {}, greedy)});
    target.device->RunOnce();
    EXPECT_EQ(other.sink->Take().size(), after < absl::Milliseconds(2) ? 0u : 1u);
  }
}

// Three passes may be in flight. The one behind the overruled Step's goes on.
TEST(ChainedStepsTime, OverrulingAwaitsOnePass) {
  auto owned = std::make_unique<TableEngine>(
      TableEngine::Table{{0, -1, -2}, {-2, 0, -1}, {-1, -2, 0}}, /*max_passes_in_flight=*/3);
  TableEngine& engine = *owned;
  Harness target({}, std::move(owned));
  internal::v1::SequenceOptions greedy = SampledOptions(7, 0);
  greedy.set_rule(v1::RULE_GREEDY);
  Harness::Stream stream = target.Connect("chained"), other = target.Connect("other");
  const Tokens text = {1};  // which is followed by itself
  Harness::Send(stream, {FirstStep(1, text, {}, greedy), ChainedStep(2, 1, {{0, 1, {1}}})});
  target.device->RunOnce();
  target.device->RunOnce();
  ASSERT_EQ(stream.sink->Take().size(), 1u);
  target.device->RunOnce();
  Harness::Send(other, {FirstStep(1, text, {}, greedy)});
  target.device->RunOnce();
  ASSERT_EQ(engine.in_flight(), 2u) << "the chained Step's, and the other's";
  Harness::Send(stream, {MakeStep(1, 3, Tokens{1, 1}, 1)});
  target.device->RunOnce();
  EXPECT_EQ(engine.launched_behind, 1u);
  target.RunAll();
  EXPECT_EQ(stream.sink->Take().size(), 2u);
  EXPECT_EQ(other.sink->Take().size(), 1u);
}

TEST(ChainedStepsRules, OthersHaveNone) {
  Harness target({}, {.vocabulary_size = kVocabulary});
  Harness::Stream stream = target.Connect();
  EXPECT_EQ(stream.sink->welcome()->limits().max_unanswered(), 2u);
  ASSERT_EQ(target.Ask(stream, FirstStep(1, kPrompt, {}, SampledOptions())).status(), kOk);
  const internal::v1::Verdict verdict = target.Ask(stream, ChainedStep(2, 1, {{0, 1, {1}}}));
  EXPECT_EQ(verdict.status(), kInvalid);
  EXPECT_EQ(verdict.problem().field(), "prepared");
}

}  // namespace
}  // namespace tandem::target_service
