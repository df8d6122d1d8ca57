// Blocks in advance, over the wire: what is pushed, what a Submitted does, and what they cost
// others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/draft_service/harness.h"
#include "tests/support/scrape.h"

namespace tandem::draft_service::prepared_blocks_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

using Tokens = std::vector<uint32_t>;

Tokens TokensOf(const internal::v1::Block& block) {
  return {block.tokens().begin(), block.tokens().end()};
}

internal::v1::DraftRequest MakePreparingAdvance(uint64_t sequence, uint64_t round,
                                                absl::Span<const uint32_t> committed, uint32_t keep,
                                                uint32_t max_draft_tokens, uint32_t max_outcomes) {
  internal::v1::DraftRequest request =
      MakeAdvance(sequence, round, committed, keep, max_draft_tokens);
  request.mutable_advance()->mutable_shape()->set_max_outcomes(max_outcomes);
  return request;
}

internal::v1::DraftRequest MakeSubmitted(uint64_t sequence, uint64_t block_id, uint32_t nodes) {
  internal::v1::DraftRequest request;
  request.mutable_submitted()->set_sequence(sequence);
  request.mutable_submitted()->mutable_block_id()->set_value(block_id);
  request.mutable_submitted()->set_nodes(nodes);
  return request;
}

const Tokens kPrompt = {1, 2, 3, 4, 5};

// A sequence's client, which holds every block against that of a draft that prepares nothing.
class Client {
 public:
  Client(Harness& draft, Harness& plain, uint64_t number,
         const internal::v1::SequenceOptions& options, std::mt19937& random)
      : draft_(draft), plain_(plain), number_(number), options_(options), random_(random) {
    stream_ = draft_.Connect();
    plain_stream_ = plain_.Connect();
    committed_.resize(3 + random_() % 5);
    for (uint32_t& token : committed_) token = static_cast<uint32_t>(random_() % 8);
    stream_.Send(MakeOpen(number, committed_, "model", options_));
    told_ = static_cast<uint32_t>(committed_.size());
  }

  bool done() const { return rounds_ >= 40 || committed_.size() > 150; }
  bool asked() const { return asked_; }
  int hits() const { return hits_; }
  int pushed() const { return pushed_; }

  void Ask() {
    max_draft_tokens_ = 1 + static_cast<uint32_t>(random_() % 4);
    stream_.Send(MakePreparingAdvance(number_, ++round_, committed_, told_, max_draft_tokens_,
                                      static_cast<uint32_t>(random_() % (kMaxOutcomes + 1))));
    told_ = static_cast<uint32_t>(committed_.size());
    asked_ = true;
    ++rounds_;
  }

  // What has come since.
  void Read() {
    for (const internal::v1::Block& block : stream_.sink->Take()) {
      ASSERT_EQ(block.status(), internal::v1::STATUS_OK) << block.ShortDebugString();
      ASSERT_EQ(block.round(), round_);
      ASSERT_EQ(block.q_size(), 0);
      if (block.final()) {
        ASSERT_TRUE(asked_ && !block.has_assumes());
        asked_ = false;
        ASSERT_EQ(TokensOf(block), Plain(committed_));
        Submit(block);
        continue;
      }
      ASSERT_TRUE(block.has_assumes());
      if (asked_) continue;  // it crossed an Advance
      ++pushed_;
      // One that crossed a Submitted is of another base.
      if (block.assumes().block_id().value() != base_id_) continue;
      ASSERT_EQ(block.assumes().committed(), committed_.size());
      ASSERT_LE(block.assumes().node(), static_cast<uint32_t>(whole_base_.size()));
      ASSERT_EQ(TokensOf(block), Plain(After(block)));
      if (block.assumes().node() <= base_.size()) prepared_.push_back(block);
    }
  }

  // The verdict: one of what was prepared, or another.
  void Decide() {
    if (asked_ || base_id_ == 0) return;
    if (!prepared_.empty() && random_() % 4 != 0) {
      const internal::v1::Block hit = prepared_[random_() % prepared_.size()];
      committed_ = After(hit);
      told_ = static_cast<uint32_t>(committed_.size());
      ++hits_;
      ++rounds_;
      return Submit(hit);
    }
    const size_t accepted = random_() % (base_.size() + 1);
    committed_.insert(committed_.end(), base_.begin(),
                      base_.begin() + static_cast<ptrdiff_t>(accepted));
    committed_.push_back(static_cast<uint32_t>(random_() % 8));
    if (random_() % 8 == 0) {  // the client starts over from further back
      committed_.resize(1 + random_() % committed_.size());
      told_ = std::min(told_, static_cast<uint32_t>(committed_.size()));
    }
    Ask();
  }

 private:
  Tokens After(const internal::v1::Block& block) const {
    Tokens text = committed_;
    text.insert(text.end(), whole_base_.begin(), whole_base_.begin() + block.assumes().node());
    text.push_back(block.assumes().next_token());
    return text;
  }

  void Submit(const internal::v1::Block& block) {
    base_id_ = block.block_id().value();
    base_ = TokensOf(block);
    whole_base_ = base_;
    prepared_.clear();
    if (random_() % 4 == 0) base_.resize(random_() % (base_.size() + 1));
    stream_.Send(MakeSubmitted(number_, base_id_, static_cast<uint32_t>(base_.size())));
    if (random_() % 4 == 0) stream_.Send(MakeSubmitted(number_, 1 + random_() % 9999, 1));  // old
  }

  Tokens Plain(const Tokens& text) {
    plain_stream_.Send(MakeOpen(++plain_number_, text, "model", options_));
    const internal::v1::Block block =
        plain_.Ask(plain_stream_, MakeAdvance(plain_number_, 1, text, 0, max_draft_tokens_));
    plain_stream_.Send(MakeClose(plain_number_));
    return TokensOf(block);
  }

  Harness& draft_;
  Harness& plain_;
  const uint64_t number_;
  const internal::v1::SequenceOptions options_;
  std::mt19937& random_;
  Harness::Stream stream_, plain_stream_;
  uint64_t plain_number_ = 0;
  Tokens committed_;
  uint32_t told_ = 0;
  uint64_t round_ = 0;
  uint32_t max_draft_tokens_ = 1;
  bool asked_ = false;
  uint64_t base_id_ = 0;
  Tokens base_;        // as it went to verification
  Tokens whole_base_;  // as it came
  std::vector<internal::v1::Block> prepared_;
  int rounds_ = 0;
  int hits_ = 0;
  int pushed_ = 0;
};

internal::v1::SequenceOptions OptionsOf(uint64_t seed) {
  if (seed % 3 == 0) return AllWireOptions(seed, v1::RULE_COUPLED);
  if (seed % 3 == 1) return AllWireOptions(seed, v1::RULE_GREEDY, 0);
  internal::v1::SequenceOptions options = SampledOptions(seed);
  options.set_rule(v1::RULE_COUPLED);
  return options;
}

// Random verdicts at random moments: while it is being prepared, before, afterwards.
TEST(PreparedBlocksTest, EveryBlockIsTheOneThatADraftMakesWithoutPreparing) {
  std::mt19937 random(12);
  int hits = 0, pushed = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Harness draft, plain;
    std::vector<std::unique_ptr<Client>> clients;
    for (uint64_t i = 0; i < 3; ++i) {
      clients.push_back(std::make_unique<Client>(draft, plain, i + 1, OptionsOf(seed + i), random));
      clients.back()->Ask();
    }
    for (bool all_done = false; !all_done;) {
      draft.executor->RunOnce();
      all_done = true;
      for (auto& client : clients) {
        client->Read();
        ASSERT_FALSE(HasFatalFailure()) << seed;
        if (client->done()) continue;
        all_done = false;
        if (random() % 4 == 0) client->Decide();
      }
    }
    for (auto& client : clients) {
      hits += client->hits();
      pushed += client->pushed();
    }
  }
  EXPECT_GT(hits, 200);
  EXPECT_GT(pushed, 2000);
}

// ---- what it costs others ----

// A draft that notes how many parts and rows each pass has.
struct Watched {
  Watched() : draft({}, Model()), stream(draft.Connect()) {}
  testing::TableModelOptions Model() {
    testing::TableModelOptions options;
    options.before_pass = [this](absl::Span<const model::ForwardPart> parts) {
      size_t rows = 0;
      for (const model::ForwardPart& part : parts) rows += part.tokens.size();
      passes.emplace_back(parts.size(), rows);
      return absl::OkStatus();
    };
    return options;
  }
  void Open(uint64_t sequence) {
    stream.Send(MakeOpen(sequence, kPrompt, "model", OptionsOf(2)));
    draft.RunAll();
  }
  // Until its Block has come; its passes are forgotten.
  internal::v1::Block RunToBlock() {
    while (draft.executor->RunOnce()) {
      for (const internal::v1::Block& block : stream.sink->Take()) {
        if (!block.final()) continue;
        passes.clear();
        return block;
      }
    }
    TANDEM_CHECK(false) << "no Block";
    return {};
  }

  std::vector<std::pair<size_t, size_t>> passes;
  Harness draft;
  Harness::Stream stream;
};

TEST(PreparedBlocksTest, RowsGoWhereNobodyAsks) {
  Watched watched;
  for (uint64_t sequence : {1, 2, 3}) watched.Open(sequence);
  watched.stream.Send(MakePreparingAdvance(1, 1, kPrompt, 5, 3, 8));
  watched.RunToBlock();
  watched.draft.executor->RunOnce();
  watched.draft.executor->RunOnce();
  ASSERT_EQ(watched.passes.size(), 2u);
  EXPECT_EQ(watched.passes[0], (std::pair<size_t, size_t>(1, 1))) << "the base's last token";
  EXPECT_GT(watched.passes[1].second, 1u) << "the outcomes";
  EXPECT_EQ(watched.draft.executor->load().queued_rows(), 0u);
  watched.passes.clear();
  watched.stream.Send(MakeAdvance(2, 1, kPrompt, 5, 4));
  watched.stream.Send(MakeOpen(4, Tokens(60, 1), "model", OptionsOf(2)));  // reads ahead
  EXPECT_THAT(watched.stream.sink->Take(), IsEmpty());
  const int64_t rows = watched.draft.model.rows();
  while (watched.stream.sink->Take().empty()) ASSERT_TRUE(watched.draft.executor->RunOnce());
  // The block's rows with its prompt, and the long prompt's: nothing was prepared before both were
  // through.
  EXPECT_EQ(watched.draft.model.rows() - rows, 5 + 3 + 59);
  watched.draft.RunAll();
  const std::vector<internal::v1::Block> pushed = watched.stream.sink->Take();
  ASSERT_THAT(pushed, Not(IsEmpty())) << "it goes on afterwards";
  for (const internal::v1::Block& block : pushed) EXPECT_EQ(block.sequence(), 1u);
}

TEST(PreparedBlocksTest, AnAdvanceOrASubmittedOfAShorterBaseEndsItAtOnce) {
  Watched watched;
  watched.Open(1);
  watched.stream.Send(MakePreparingAdvance(1, 1, kPrompt, 5, 3, 8));
  const internal::v1::Block base = watched.RunToBlock();
  for (int i = 0; i < 3; ++i) watched.draft.executor->RunOnce();
  watched.passes.clear();
  Tokens committed = kPrompt;
  committed.push_back(TokensOf(base)[0]);
  committed.push_back(TokensOf(base)[1]);
  watched.stream.Send(MakeAdvance(1, 2, committed, 5, 2));
  watched.draft.RunAll();
  EXPECT_THAT(watched.passes,
              ElementsAre(std::pair<size_t, size_t>(1, 1), std::pair<size_t, size_t>(1, 1)))
      << "two tokens, a row each: what was committed was there";
  EXPECT_EQ(watched.stream.sink->Take().size(), 1u) << "nothing is pushed any more";

  watched.stream.Send(MakePreparingAdvance(1, 3, committed, 7, 3, 8));
  const internal::v1::Block longer = watched.RunToBlock();
  watched.draft.executor->RunOnce();
  watched.stream.Send(MakeSubmitted(1, longer.block_id().value(), 1));
  watched.draft.RunAll();
  bool first_stands_and_second_follows = false;
  for (const internal::v1::Block& block : watched.stream.sink->Take()) {
    EXPECT_LE(block.assumes().node(), 1u);
    first_stands_and_second_follows |=
        block.assumes().node() == 1 && block.assumes().next_token() == longer.tokens(1);
  }
  EXPECT_TRUE(first_stands_and_second_follows);
}

TEST(PreparedBlocksTest, ArePushedInOneBurstTheLikeliestFirstAndNotAbove8AtWork) {
  Watched watched;
  for (uint64_t sequence = 1; sequence <= 9; ++sequence) watched.Open(sequence);
  for (uint64_t sequence = 1; sequence <= 9; ++sequence) {
    watched.stream.Send(MakePreparingAdvance(sequence, 1, kPrompt, 5, 3, 8));
  }
  std::map<uint64_t, int> bursts;
  size_t answers = 0;
  while (watched.draft.executor->RunOnce()) {
    std::map<uint64_t, int> now;
    for (const internal::v1::Block& block : watched.stream.sink->Take()) {
      if (block.final()) {
        ++answers;
      } else {
        ++now[block.sequence()];
      }
    }
    for (const auto& [sequence, blocks] : now) {
      EXPECT_LE(blocks, 8);
      EXPECT_EQ(++bursts[sequence], 1);
    }
  }
  EXPECT_EQ(answers, 9u);
  EXPECT_EQ(bursts.size(), kMaxPreparing);
}

TEST(PreparedBlocksTest, ShapesWithoutThemAndRulesWithAQGetNone) {
  Watched watched;
  watched.stream.Send(MakeOpen(1, kPrompt, "model", SampledOptions()));
  watched.stream.Send(MakeOpen(2, kPrompt, "model", OptionsOf(2)));
  watched.stream.Send(MakeOpen(3, kPrompt, "prompt-lookup", OptionsOf(2)));
  for (uint64_t sequence : {1, 3}) {
    watched.draft.Ask(watched.stream, MakePreparingAdvance(sequence, 1, kPrompt, 5, 3, 8));
  }
  internal::v1::DraftRequest confident = MakePreparingAdvance(2, 1, kPrompt, 5, 3, 8);
  confident.mutable_advance()->mutable_shape()->set_min_confidence(0.1f);
  EXPECT_EQ(watched.draft.Ask(watched.stream, confident).status(), internal::v1::STATUS_OK);
}

TEST(PreparedBlocksTest, AreOfferedOfTheDraftersThatMakeThem) {
  testing::TableModel model({});
  Options options;
  options.vocabulary_size = 8;
  options.drafters = {ModelDrafterFactory(model, {}), PromptLookupFactory()};
  options.default_drafter = "prompt-lookup";
  EXPECT_THAT(MakeWelcome(options).preparing_drafters(), ElementsAre("model"));
}

TEST(PreparedBlocksTest, AreCounted) {
  Watched watched;
  watched.Open(1);
  watched.stream.Send(MakePreparingAdvance(1, 1, kPrompt, 5, 3, 4));
  watched.draft.RunAll();
  const std::vector<internal::v1::Block> first = watched.stream.sink->Take();
  ASSERT_GT(first.size(), 2u);
  watched.stream.Send(MakeSubmitted(1, first[1].block_id().value(), 3));
  watched.draft.RunAll();
  const size_t second = watched.stream.sink->Take().size();
  ASSERT_GT(second, 0u);
  watched.stream.Send(MakeClose(1));
  watched.draft.RunAll();
  const auto scrape = testing::ParseMetrics(watched.draft.executor->MetricsText());
  ASSERT_TRUE(scrape.ok()) << scrape.status();
  const auto value = [&scrape](const std::string& event) {
    return scrape->Value("tandem:draft_prepared_blocks_total", {{"event", event}});
  };
  EXPECT_EQ(value("sent"), first.size() - 1 + second);
  EXPECT_EQ(value("taken"), 1);
  EXPECT_EQ(value("dropped"), first.size() - 2 + second);
}

}  // namespace
}  // namespace tandem::draft_service::prepared_blocks_test
