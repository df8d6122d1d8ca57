// Blocks that are cut by time: what was drafted by then, exact, and nothing is left behind.
#include <gtest/gtest.h>

#include <random>

#include "common/acceptance/speculative.h"
#include "common/concurrency/instant.h"
#include "tests/draft_service/harness.h"
#include "tests/support/chi_square.h"

namespace tandem::draft_service {
namespace {

const std::vector<uint32_t> kPrompt = {1, 2, 3, 4, 5};
constexpr absl::Duration kPassTime = absl::Microseconds(100);

// Every pass of the model takes kPassTime.
class DraftDeadline : public ::testing::Test {
 protected:
  DraftDeadline() : draft_({}, Model()), stream_(draft_.Connect()) {}

  internal::v1::Block Ask(uint64_t sequence, uint64_t round, const std::vector<uint32_t>& committed,
                          uint32_t max_draft_tokens, absl::Duration within = absl::ZeroDuration()) {
    return draft_.Ask(stream_,
                      MakeLateAdvance(sequence, round, committed, 0, max_draft_tokens, within));
  }

  Harness draft_;
  Harness::Stream stream_;

 private:
  testing::TableModelOptions Model() {
    testing::TableModelOptions options;
    options.before_pass = [this](absl::Span<const model::ForwardPart>) {
      draft_.clock.Advance(kPassTime);
      return absl::OkStatus();
    };
    return options;
  }
};

std::vector<uint32_t> Tokens(const internal::v1::Block& block) {
  return {block.tokens().begin(), block.tokens().end()};
}

// The draws are keyed by position, so a cut block is the beginning of the whole one; and whatever
// becomes of it, the next block is that of a draft which has just read the same text.
TEST_F(DraftDeadline, ACutBlockIsTheBeginningOfTheWholeOne) {
  uint64_t name = 0;
  for (int kind = 0; kind < 4; ++kind) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const internal::v1::SequenceOptions kinds[] = {
          SampledOptions(seed, 0), SampledOptions(seed, 1),
          AllWireOptions(seed, v1::RULE_SPECULATIVE), AllWireOptions(seed, v1::RULE_COUPLED)};
      const internal::v1::SequenceOptions& options = kinds[kind];
      const bool sends_q = kind == 1 || kind == 2;
      stream_.Send(MakeOpen(++name, kPrompt, "model", options));
      const internal::v1::Block whole = Ask(name, 1, kPrompt, 8);
      ASSERT_EQ(whole.tokens_size(), 8);
      for (int n = 1; n <= 7; ++n) {
        const uint64_t cut_name = ++name;
        stream_.Send(MakeOpen(cut_name, kPrompt, "model", options));
        const internal::v1::Block cut = Ask(cut_name, 1, kPrompt, 8, n * kPassTime + kPassTime / 2);
        ASSERT_EQ(cut.status(), internal::v1::STATUS_OK) << cut.ShortDebugString();
        ASSERT_TRUE(cut.final());
        ASSERT_EQ(cut.tokens_size(), n);
        ASSERT_EQ(cut.q_size(), sends_q ? n : 0);
        for (int i = 0; i < n; ++i) {
          EXPECT_EQ(cut.tokens(i), whole.tokens(i));
          if (sends_q) {
            EXPECT_EQ(cut.q(i).SerializeAsString(), whole.q(i).SerializeAsString());
          }
        }
        // So many of it stand, and one token follows.
        std::vector<uint32_t> committed = kPrompt;
        const auto accepted = static_cast<ptrdiff_t>(seed % static_cast<uint64_t>(n + 1));
        committed.insert(committed.end(), cut.tokens().begin(), cut.tokens().begin() + accepted);
        committed.push_back(7);
        const internal::v1::Block next = draft_.Ask(
            stream_, MakeAdvance(cut_name, 2, committed, static_cast<uint32_t>(kPrompt.size()), 4));
        stream_.Send(MakeOpen(++name, committed, "model", options));
        const internal::v1::Block fresh = Ask(name, 1, committed, 4);
        ASSERT_EQ(next.status(), internal::v1::STATUS_OK) << next.ShortDebugString();
        ASSERT_EQ(Tokens(next), Tokens(fresh));
        stream_.Send(MakeClose(cut_name));
        stream_.Send(MakeClose(name));
      }
    }
  }
}

// A pass that would end after the wanted time is not begun for a block that has something to send.
TEST_F(DraftDeadline, TheBlockIsThereInTime) {
  stream_.Send(MakeOpen(1, kPrompt));
  Ask(1, 1, kPrompt, 8);  // the time of a pass is known now
  const concurrency::Instant began = draft_.clock.Now();
  EXPECT_EQ(Ask(1, 2, kPrompt, 8, 3 * kPassTime + kPassTime / 2).tokens_size(), 3);
  EXPECT_EQ(draft_.clock.Now() - began, 3 * kPassTime);
  // One that has nothing yet goes on until the time is over.
  EXPECT_EQ(Ask(1, 3, kPrompt, 8, kPassTime / 2).tokens_size(), 1);
}

TEST_F(DraftDeadline, NothingDraftedIsExpiredAndReadingGoesOn) {
  const std::vector<uint32_t> prompt(200, 3);
  Options options;
  options.pass_rows = 10;
  testing::TableModelOptions model;
  Harness* held = nullptr;
  model.before_pass = [&held](absl::Span<const model::ForwardPart>) {
    held->clock.Advance(kPassTime);
    return absl::OkStatus();
  };
  Harness draft(options, model);
  held = &draft;
  auto stream = draft.Connect();
  stream.Send(MakeOpen(1, {}));
  stream.Send(MakeLateAdvance(1, 1, prompt, 0, 4, 5 * kPassTime));
  for (int i = 0; i < 6; ++i) draft.executor->RunOnce();
  auto blocks = stream.sink->Take();
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks[0].status(), internal::v1::STATUS_EXPIRED);
  EXPECT_TRUE(blocks[0].tokens().empty());
  draft.RunAll();
  EXPECT_EQ(draft.model.rows(), 199);  // all but the last, whose row the next block needs
  const internal::v1::Block block = draft.Ask(stream, MakeAdvance(1, 1, prompt, 200, 4));
  EXPECT_EQ(block.status(), internal::v1::STATUS_OK);
  EXPECT_EQ(draft.model.rows(), 199 + 4);
  Harness other;
  auto fresh = other.Connect();
  fresh.Send(MakeOpen(1, prompt));
  EXPECT_EQ(Tokens(block), Tokens(other.Ask(fresh, MakeAdvance(1, 1, prompt, 200, 4))));
}

TEST_F(DraftDeadline, ACutLeavesOthersAlone) {
  stream_.Send(MakeOpen(1, kPrompt));
  stream_.Send(MakeOpen(2, kPrompt));
  stream_.Send(MakeAdvance(1, 1, kPrompt, 5, 8));
  stream_.Send(MakeLateAdvance(2, 1, kPrompt, 5, 8, 3 * kPassTime));
  draft_.RunAll();
  auto blocks = stream_.sink->Take();
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].sequence(), 2u);
  EXPECT_EQ(blocks[0].tokens_size(), 3);
  EXPECT_EQ(blocks[1].tokens_size(), 8);
  EXPECT_EQ(draft_.model.rows(), (5 + 7) + (5 + 2));
}

// The first token that comes of verifying a block, by the speculative rule: it follows the target's
// p whatever the draft's q. `drops` says which drawn tokens do not reach the verifier.
testing::ChiSquare FirstToken(Harness& draft, Harness::Stream& stream,
                              const std::function<bool(double q)>& drops) {
  const testing::TableModel target({.seed = 1, .noise = 1, .noise_seed = 9});
  std::vector<sampling::Distribution> p(2);
  p[0] = sampling::MakeDistribution(target.LogitsAfter(kPrompt), 8, {});
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> uniform;
  std::vector<int64_t> counts(8);
  for (uint64_t seed = 0; seed < 8000; ++seed) {
    stream.Send(MakeOpen(1, kPrompt, "model", SampledOptions(seed)));
    const internal::v1::Block block =
        draft.Ask(stream, MakeLateAdvance(1, 1, kPrompt, 5, 4, kPassTime + kPassTime / 2));
    stream.Send(MakeClose(1));
    EXPECT_EQ(block.tokens_size(), 1);  // of four
    const uint32_t candidate = block.tokens(0);
    const sampling::SparseDistribution q{
        {block.q(0).ids().begin(), block.q(0).ids().end()},
        {block.q(0).weights().begin(), block.q(0).weights().end()}};
    std::vector<uint32_t> candidates;
    std::vector<const sampling::SparseDistribution*> qs;
    std::vector<double> uniforms;
    if (!drops(q(candidate))) {
      candidates = {candidate};
      qs = {&q};
      uniforms = {uniform(random)};
      std::vector<uint32_t> text = kPrompt;
      text.push_back(candidate);
      p[1] = sampling::MakeDistribution(target.LogitsAfter(text), 8, {});
    }
    const std::vector<double> replace(candidates.size(), uniform(random));
    const auto entries =
        acceptance::JudgeSpeculative(absl::MakeConstSpan(p).first(candidates.size() + 1),
                                     candidates, qs, replace, uniform(random));
    const acceptance::Decision decision =
        acceptance::Decide(acceptance::Rule::kSpeculative, entries, uniforms);
    ++counts[decision.accepted > 0 ? candidate : decision.next_token];
  }
  std::vector<double> probabilities(8);
  for (size_t i = 0; i < p[0].ids.size(); ++i) {
    probabilities[p[0].ids[i]] = p[0].probabilities[i];
  }
  return testing::GoodnessOfFit(probabilities, counts);
}

TEST_F(DraftDeadline, ACutBlockVerifiesExactly) {
  const testing::ChiSquare fit = FirstToken(draft_, stream_, [](double) { return false; });
  EXPECT_TRUE(fit.Passes()) << fit.ToString();
}

// The negative control: the same test sees a cut that looks at the token.
TEST_F(DraftDeadline, ACutByValueIsCaught) {
  const testing::ChiSquare fit = FirstToken(draft_, stream_, [](double q) { return q < 0.15; });
  EXPECT_TRUE(fit.ControlIsCaught()) << fit.ToString();
}

}  // namespace
}  // namespace tandem::draft_service
