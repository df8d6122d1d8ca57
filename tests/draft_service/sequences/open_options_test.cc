// What Open asks for: taken, or refused by name; never ignored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "draft_service/drafters/context_ngram.h"
#include "tests/draft_service/harness.h"

namespace tandem::draft_service::open_options_test {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::vector<uint32_t> kPrompt = {1, 2, 3, 1, 2};

internal::v1::Block OpenAndAsk(Harness& draft, const std::string& drafter,
                               const internal::v1::SequenceOptions& options,
                               v1::Proposal proposal = v1::PROPOSAL_UNSPECIFIED) {
  auto stream = draft.Connect();
  stream.Send(MakeOpen(1, kPrompt, drafter, options, proposal));
  internal::v1::Block block = draft.Ask(stream, MakeAdvance(1, 1, kPrompt, 5));
  stream.session->OnDone(absl::CancelledError("gone"));
  draft.RunAll();
  return block;
}

TEST(OpenOptions, TheRequestDecidesHowTheModelProposes) {
  for (Proposal told : {Proposal::kSampled, Proposal::kGreedy}) {
    testing::TableModel model({});
    Options options;
    options.drafters = {ModelDrafterFactory(model, {.proposal = told})};
    Harness draft(options);
    const bool samples = told == Proposal::kSampled;
    const auto ask = [&](v1::Proposal proposal) {
      const internal::v1::Block block = OpenAndAsk(draft, "", SampledOptions(), proposal);
      EXPECT_EQ(block.status(), internal::v1::STATUS_OK) << block.ShortDebugString();
      EXPECT_EQ(block.tokens_size(), 4);
      return block.q_size();
    };
    EXPECT_EQ(ask(v1::PROPOSAL_UNSPECIFIED), samples ? 4 : 0);
    EXPECT_EQ(ask(v1::PROPOSAL_SAMPLED), 4);
    EXPECT_EQ(ask(v1::PROPOSAL_GREEDY), 0);
  }
}

// A drafter that cannot do what is asked says so, and what would do.
TEST(OpenOptions, WhoCannotSampleIsNotAskedTo) {
  Harness draft;  // vocabulary 8: random can send its q
  for (v1::Proposal proposal : {v1::PROPOSAL_UNSPECIFIED, v1::PROPOSAL_GREEDY}) {
    const internal::v1::Block block =
        OpenAndAsk(draft, "prompt-lookup", SampledOptions(), proposal);
    EXPECT_THAT(block.tokens(), ElementsAreArray({3, 1, 2}));
    EXPECT_EQ(block.q_size(), 0);
  }
  const internal::v1::Block block =
      OpenAndAsk(draft, "prompt-lookup", SampledOptions(), v1::PROPOSAL_SAMPLED);
  EXPECT_EQ(block.status(), internal::v1::STATUS_INVALID);
  EXPECT_EQ(block.problem().field(), "open.proposal");
  EXPECT_THAT(block.problem().message(), HasSubstr("prompt-lookup"));
  EXPECT_THAT(block.problem().message(), HasSubstr("PROPOSAL_GREEDY"));
  EXPECT_EQ(OpenAndAsk(draft, "random", SampledOptions(), v1::PROPOSAL_SAMPLED).q_size(), 4);

  // The same of a default drafter, and of a random one whose q has too many entries.
  Options options;
  options.drafters = {PromptLookupFactory(), testing::RandomDrafterFactory({"random", 100})};
  Harness without_model(options, {.vocabulary_size = 100});
  for (const char* name : {"", "random"}) {
    EXPECT_EQ(
        OpenAndAsk(without_model, name, SampledOptions(), v1::PROPOSAL_SAMPLED).problem().field(),
        "open.proposal")
        << name;
    EXPECT_EQ(OpenAndAsk(without_model, name, SampledOptions(), v1::PROPOSAL_GREEDY).status(),
              internal::v1::STATUS_OK)
        << name;
  }
}

// At temperature 0 and under the coupled rule q would say nothing, whoever drafts.
TEST(OpenOptions, QIsSentWhereItCounts) {
  Harness draft;
  for (const char* drafter : {"model", "random"}) {
    for (const auto& [rule, temperature, q] :
         std::vector<std::tuple<v1::Rule, float, int>>{{v1::RULE_SPECULATIVE, 1, 4},
                                                       {v1::RULE_BLOCK, 1, 4},
                                                       {v1::RULE_LENIENT, 1, 4},
                                                       {v1::RULE_COUPLED, 1, 0},
                                                       {v1::RULE_GREEDY, 0, 0},
                                                       {v1::RULE_SPECULATIVE, 0, 0},
                                                       {v1::RULE_BLOCK, 0, 0},
                                                       {v1::RULE_LENIENT, 0, 0},
                                                       {v1::RULE_COUPLED, 0, 0}}) {
      internal::v1::SequenceOptions options = SampledOptions(3, temperature);
      options.set_rule(rule);
      if (rule == v1::RULE_LENIENT) options.set_leniency(0.5f);
      const internal::v1::Block block = OpenAndAsk(draft, drafter, options, v1::PROPOSAL_SAMPLED);
      EXPECT_EQ(block.tokens_size(), 4) << block.ShortDebugString();
      EXPECT_EQ(block.q_size(), q) << drafter << " " << v1::Rule_Name(rule) << " " << temperature;
    }
  }
}

// Whether a draft token reaches the verifier does not depend on its value: what these two find or
// draw stays in the block, banned or not.
TEST(OpenOptions, BannedCandidatesStayInTheBlock) {
  Harness draft;
  for (const char* drafter : {"prompt-lookup", "random"}) {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      internal::v1::SequenceOptions options = SampledOptions(seed);
      const internal::v1::Block plain = OpenAndAsk(draft, drafter, options);
      for (uint32_t token : {1, 2, 3, 4, 5, 6})
        options.mutable_sampling()->add_banned_token_ids(token);
      options.mutable_sampling()->add_allowed_token_ids(0);
      const internal::v1::Block banned = OpenAndAsk(draft, drafter, options);
      ASSERT_GE(plain.tokens_size(), 3) << drafter;
      ASSERT_THAT(banned.tokens(), ElementsAreArray(plain.tokens())) << drafter << " " << seed;
      ASSERT_EQ(banned.q_size(), plain.q_size());
      for (int i = 0; i < plain.q_size(); ++i) {
        ASSERT_EQ(banned.q(i).SerializeAsString(), plain.q(i).SerializeAsString());
      }
    }
  }
  // The model does not propose what its options exclude.
  for (uint64_t seed = 0; seed < 50; ++seed) {
    internal::v1::SequenceOptions options = SampledOptions(seed);
    for (uint32_t token : {1, 2, 3, 4, 5, 6})
      options.mutable_sampling()->add_banned_token_ids(token);
    const internal::v1::Block block = OpenAndAsk(draft, "model", options);
    EXPECT_EQ(block.tokens_size(), 4);
    for (uint32_t token : block.tokens()) EXPECT_TRUE(token == 0 || token == 7) << token;
  }
}

// The ranges of options: tests/common/speculation/sequence_options_test.cc. These show that they
// are looked at, with this draft's vocabulary.
TEST(OpenOptions, WhatIsOutOfRangeIsNamed) {
  const std::vector<std::pair<std::string, std::function<void(internal::v1::Open&)>>> kBad = {
      {"open.options.sampling.temperature",
       [](internal::v1::Open& o) {
         o.mutable_options()->mutable_sampling()->set_temperature(101);
       }},
      {"open.options.sampling.banned_token_ids[1]",
       [](internal::v1::Open& o) {
         o.mutable_options()->mutable_sampling()->add_banned_token_ids(8);
       }},
      {"open.options.logprobs",
       [](internal::v1::Open& o) { o.mutable_options()->mutable_logprobs(); }},
      {"open.unknown field",
       [](internal::v1::Open& o) { o.set_proposal(static_cast<v1::Proposal>(7)); }},
  };
  for (const auto& [field, spoil] : kBad) {
    Harness draft;
    auto stream = draft.Connect();
    internal::v1::DraftRequest request =
        MakeOpen(1, kPrompt, "", AllWireOptions(1, v1::RULE_SPECULATIVE));
    stream.Send(request);
    EXPECT_EQ(draft.Ask(stream, MakeAdvance(1, 1, kPrompt, 5)).status(), internal::v1::STATUS_OK);
    stream.Send(MakeClose(1));
    spoil(*request.mutable_open());
    stream.Send(request);
    const internal::v1::Block block = draft.Ask(stream, MakeAdvance(1, 2, kPrompt, 5));
    EXPECT_EQ(block.status(), internal::v1::STATUS_INVALID) << field;
    EXPECT_THAT(block.problem().field(), StartsWith(field));
    EXPECT_FALSE(block.problem().message().empty());
  }
}

// What a drafter thinks of its draft tokens ends no block whose draft tokens are drawn from a q.
TEST(OpenOptions, ConfidenceEndsBlocksOfRulesWithoutAQ) {
  testing::TableModel model({});
  Options options;
  options.drafters = {ModelDrafterFactory(model, {})};
  Harness draft(options);
  for (const v1::Rule rule :
       {v1::RULE_GREEDY, v1::RULE_COUPLED, v1::RULE_SPECULATIVE, v1::RULE_BLOCK}) {
    internal::v1::SequenceOptions settings = SampledOptions();
    settings.set_rule(rule);
    if (rule == v1::RULE_GREEDY) settings.mutable_sampling()->set_temperature(0);
    auto stream = draft.Connect();
    stream.Send(MakeOpen(1, kPrompt, "", settings));
    internal::v1::DraftRequest advance = MakeAdvance(1, 1, kPrompt, 5);
    advance.mutable_advance()->mutable_shape()->set_min_confidence(1);
    const internal::v1::Block block = draft.Ask(stream, advance);
    if (rule == v1::RULE_GREEDY || rule == v1::RULE_COUPLED) {
      EXPECT_EQ(block.tokens_size(), 1) << block.ShortDebugString() << ": nothing is so sure";
      continue;
    }
    EXPECT_EQ(block.status(), internal::v1::STATUS_INVALID);
    EXPECT_EQ(block.problem().field(), "shape.min_confidence");
    EXPECT_THAT(block.problem().message(), HasSubstr("use rule greedy or coupled"));
  }
}

// Trees are asked for at Open, of a drafter that makes them, and then with each Advance.
TEST(OpenOptions, TreesOfWhoMakesThem) {
  Options options;
  options.drafters = {PromptLookupFactory(), ContextNgramFactory()};
  options.max_nodes = 12;
  Harness draft(options);
  auto stream = draft.Connect();
  ASSERT_TRUE(stream.sink->welcome().has_value());
  const v1::Welcome welcome = *stream.sink->welcome();
  EXPECT_THAT(welcome.features(), ElementsAreArray({"confidence", "trees"}));
  EXPECT_THAT(welcome.tree_drafters(), ElementsAreArray({"context-ngram"}));
  EXPECT_THAT(welcome.one_hot_drafters(), ElementsAreArray({"prompt-lookup", "context-ngram"}));
  EXPECT_EQ(welcome.limits().max_nodes(), 12u);

  internal::v1::SequenceOptions coupled = SampledOptions();
  coupled.set_rule(v1::RULE_COUPLED);
  coupled.set_max_nodes(8);
  const std::vector<uint32_t> text = {1, 2, 5, 1, 2, 6, 1, 3, 1};
  stream.Send(MakeOpen(1, text, "context-ngram", coupled));
  internal::v1::DraftRequest advance = MakeAdvance(1, 1, text, static_cast<uint32_t>(text.size()));
  advance.mutable_advance()->mutable_shape()->set_max_draft_tokens(2);
  advance.mutable_advance()->mutable_shape()->set_max_nodes(5);
  const internal::v1::Block block = draft.Ask(stream, advance);
  ASSERT_EQ(block.status(), internal::v1::STATUS_OK) << block.ShortDebugString();
  // After 1 came 2 (twice) and 3; after 1 2 came 6 and 5.
  EXPECT_THAT(block.tokens(), ElementsAreArray({2, 3, 6, 5, 1}));
  EXPECT_THAT(block.parents(), ElementsAreArray({0, 0, 1, 1, 2}));
  EXPECT_EQ(block.q_size(), 0);

  advance.mutable_advance()->set_round(2);
  advance.mutable_advance()->mutable_shape()->set_max_nodes(9);
  EXPECT_EQ(draft.Ask(stream, advance).problem().field(), "shape.max_nodes");

  const auto refused = [&draft](const std::string& drafter,
                                const internal::v1::SequenceOptions& options) {
    const internal::v1::Block block = OpenAndAsk(draft, drafter, options);
    EXPECT_EQ(block.status(), internal::v1::STATUS_INVALID);
    EXPECT_EQ(block.problem().field(), "open.options.max_nodes");
    return block.problem().message();
  };
  EXPECT_THAT(refused("prompt-lookup", coupled), HasSubstr("makes only chains"));
  EXPECT_THAT(refused("", coupled), HasSubstr("context-ngram"));
  coupled.set_max_nodes(13);
  EXPECT_THAT(refused("context-ngram", coupled), HasSubstr("0 to 12"));
  internal::v1::SequenceOptions speculative = SampledOptions();
  speculative.set_max_nodes(8);
  EXPECT_THAT(refused("context-ngram", speculative), HasSubstr("has no trees"));
}

}  // namespace
}  // namespace tandem::draft_service::open_options_test
