#include "draft_service/serving/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "common/base/log.h"
#include "tests/draft_service/harness.h"

namespace tandem::draft_service::session_test {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

const std::vector<uint32_t> kPrompt = {1, 2, 3, 4, 5};

TEST(DraftSession, WelcomeTellsRulesAndDraftersTheDefaultFirst) {
  for (const std::string& told : {std::string(), std::string("random")}) {
    Options options;
    options.default_drafter = told;
    Harness draft(options);
    auto stream = draft.Connect();
    ASSERT_TRUE(stream.sink->welcome().has_value());
    const v1::Welcome welcome = *stream.sink->welcome();
    EXPECT_THAT(welcome.rules(), ElementsAre(v1::RULE_GREEDY, v1::RULE_SPECULATIVE, v1::RULE_BLOCK,
                                             v1::RULE_COUPLED, v1::RULE_LENIENT));
    if (told.empty()) {
      EXPECT_THAT(welcome.drafters(), ElementsAre("model", "prompt-lookup", "random"));
    } else {
      EXPECT_THAT(welcome.drafters(), ElementsAre("random", "model", "prompt-lookup"));
    }
    // Each of them is one that it takes, and the empty name is the first.
    uint64_t sequence = 0;
    for (const std::string& name : welcome.drafters()) {
      stream.Send(MakeOpen(++sequence, kPrompt, name));
      EXPECT_EQ(draft.Ask(stream, MakeAdvance(sequence, 1, kPrompt, 5)).status(),
                internal::v1::STATUS_OK);
    }
    stream.Send(MakeOpen(++sequence, kPrompt, ""));
    const internal::v1::Block by_default = draft.Ask(stream, MakeAdvance(sequence, 1, kPrompt, 5));
    stream.Send(MakeOpen(++sequence, kPrompt, welcome.drafters(0)));
    const internal::v1::Block by_name = draft.Ask(stream, MakeAdvance(sequence, 1, kPrompt, 5));
    EXPECT_THAT(by_default.tokens(), ElementsAreArray(by_name.tokens()));
  }
}

TEST(DraftSession, OpenReadsThePromptAndAdvanceDrafts) {
  Harness draft;
  auto stream = draft.Connect();
  std::vector<uint32_t> prompt(100, 3);
  stream.Send(MakeOpen(1, prompt));
  draft.RunAll();
  EXPECT_EQ(draft.model.rows(), 99);  // all but the last, whose row the first block needs
  EXPECT_TRUE(stream.sink->Take().empty());
  internal::v1::Block block = draft.Ask(stream, MakeAdvance(1, 1, prompt, 100));
  ASSERT_EQ(block.status(), internal::v1::STATUS_OK) << block.ShortDebugString();
  EXPECT_TRUE(block.final());
  EXPECT_EQ(block.round(), 1u);
  EXPECT_NE(block.block_id().value(), 0u);
  EXPECT_EQ(block.tokens_size(), 4);
  EXPECT_EQ(block.q_size(), 4);
  EXPECT_EQ(draft.model.rows(), 103);  // the last draft token is not fed
}

TEST(DraftSession, EveryStatusOfARefusal) {
  Options options;
  options.max_sequences = 2;
  Harness draft(options);
  auto stream = draft.Connect();
  // Unknown drafter: named with those there are, by the answer to each Advance.
  stream.Send(MakeOpen(1, kPrompt, "oracle"));
  internal::v1::Block block = draft.Ask(stream, MakeAdvance(1, 1, kPrompt, 5));
  EXPECT_EQ(block.status(), internal::v1::STATUS_INVALID);
  EXPECT_EQ(block.problem().field(), "open.drafter");
  EXPECT_THAT(block.problem().message(), HasSubstr("model, prompt-lookup, random"));
  // Opened anew it works.
  stream.Send(MakeOpen(1, kPrompt));
  EXPECT_EQ(draft.Ask(stream, MakeAdvance(1, 1, kPrompt, 5)).status(), internal::v1::STATUS_OK);
  // STALE
  EXPECT_EQ(draft.Ask(stream, MakeAdvance(1, 1, kPrompt, 5)).status(), internal::v1::STATUS_STALE);
  // NEED_PREFIX
  std::vector<uint32_t> longer(9, 1);
  block = draft.Ask(stream, MakeAdvance(1, 2, longer, 8));
  EXPECT_EQ(block.status(), internal::v1::STATUS_NEED_PREFIX);
  EXPECT_EQ(block.problem().held(), 5u);
  block = draft.Ask(stream, MakeAdvance(1, 2, longer, 2));
  EXPECT_EQ(block.status(), internal::v1::STATUS_NEED_PREFIX);
  EXPECT_EQ(block.problem().held(), 0u);
  EXPECT_EQ(draft.Ask(stream, MakeAdvance(1, 2, longer, 0)).status(), internal::v1::STATUS_OK);
  // Not open, opened twice, options out of range.
  EXPECT_EQ(draft.Ask(stream, MakeAdvance(7, 1, kPrompt, 0)).problem().field(), "sequence");
  stream.Send(MakeOpen(1, kPrompt));
  EXPECT_EQ(draft.Ask(stream, MakeAdvance(1, 3, longer, 9)).problem().field(), "open.sequence");
  EXPECT_EQ(draft.Ask(stream, MakeAdvance(1, 3, longer, 9)).status(), internal::v1::STATUS_OK);
  stream.Send(MakeOpen(2, kPrompt, "", SampledOptions(1, -1)));
  EXPECT_EQ(draft.Ask(stream, MakeAdvance(2, 1, kPrompt, 5)).problem().field(),
            "open.options.sampling.temperature");
  // NO_SLOT
  stream.Send(MakeOpen(3, kPrompt));
  stream.Send(MakeOpen(4, kPrompt));
  EXPECT_EQ(draft.Ask(stream, MakeAdvance(4, 1, kPrompt, 5)).status(),
            internal::v1::STATUS_NO_SLOT);
  EXPECT_FALSE(stream.sink->closed().has_value());
}

// What was asked for is drafted; then whoever asked is sent elsewhere, and nobody new is let in.
TEST(DraftSession, ADrainHandsSequencesOver) {
  Harness draft;
  auto idle = draft.Connect("idle");
  idle.Send(MakeOpen(1, kPrompt));
  auto busy = draft.Connect("busy");
  busy.Send(MakeOpen(1, kPrompt));
  busy.Send(MakeOpen(3, kPrompt));
  draft.RunAll();
  EXPECT_EQ(draft.executor->active_sequences(), 3u);
  busy.Send(MakeAdvance(1, 1, kPrompt, 5));
  draft.executor->Drain();
  busy.Send(MakeOpen(2, kPrompt));
  busy.Send(MakeAdvance(2, 1, kPrompt, 5));
  draft.executor->RunOnce();
  ASSERT_TRUE(idle.sink->closed().has_value());
  EXPECT_EQ(idle.sink->closed()->code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(busy.sink->closed().has_value()) << "its block is not there yet";
  EXPECT_EQ(draft.executor->active_sequences(), 2u);

  busy.Send(MakeAdvance(3, 1, kPrompt, 5));  // else the stream might be owed a block for ever
  draft.RunAll();
  const std::vector<internal::v1::Block> blocks = busy.sink->Take();
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(blocks[0].status(), internal::v1::STATUS_DRAINING);
  EXPECT_EQ(blocks[1].status(), internal::v1::STATUS_DRAINING);
  EXPECT_EQ(blocks[1].sequence(), 3u);
  EXPECT_EQ(blocks[2].status(), internal::v1::STATUS_OK);
  EXPECT_FALSE(blocks[2].tokens().empty());
  ASSERT_TRUE(busy.sink->closed().has_value());
  EXPECT_EQ(busy.sink->closed()->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(draft.executor->active_sequences(), 0u);

  busy.Send(MakeAdvance(1, 2, kPrompt, 5));  // it crosses the end of its stream
  draft.RunAll();
  EXPECT_TRUE(busy.sink->Take().empty());
}

// What comes in one message is answered in one, where it is ready at one time.
TEST(DraftSession, AMessageHasManyRequests) {
  Harness draft;
  auto stream = draft.Connect();
  internal::v1::DraftRequest message = MakeOpen(1, kPrompt);
  *message.add_next() = MakeOpen(2, kPrompt, "prompt-lookup");
  *message.add_next() = MakeAdvance(1, 1, kPrompt, 5);
  *message.add_next() = MakeAdvance(2, 1, kPrompt, 5);
  message.mutable_next(2)->mutable_advance()->mutable_shape()->set_max_nodes(9);
  *message.add_next() = MakeOpen(3, kPrompt);
  *message.add_next() = MakeAdvance(3, 1, kPrompt, 5);
  internal::v1::Advance& unknown = *message.mutable_next(4)->mutable_advance();
  unknown.GetReflection()->MutableUnknownFields(&unknown)->AddVarint(900, 1);
  *message.add_next() = MakeOpen(4, kPrompt);
  *message.add_next() = MakeAdvance(4, 1, kPrompt, 5);
  stream.Send(message);
  draft.RunAll();
  EXPECT_EQ(stream.sink->messages(), 3) << "Welcome; what was refused; what was drafted";
  const std::vector<internal::v1::Block> blocks = stream.sink->Take();
  ASSERT_EQ(blocks.size(), 4u);
  EXPECT_EQ(blocks[0].problem().field(), "shape.max_nodes");
  EXPECT_EQ(blocks[1].problem().field(), "unknown field");
  EXPECT_EQ(blocks[2].tokens_size(), 4);
  EXPECT_EQ(blocks[3].tokens_size(), 4);
  for (size_t i = 0; i < blocks.size(); ++i) EXPECT_EQ(blocks[i].has_load(), i % 2 == 0);
  EXPECT_FALSE(stream.sink->closed().has_value());
}

TEST(DraftSession, AMessageThatIsNestedOrTooLongEndsTheStream) {
  const auto ends = [](const internal::v1::DraftRequest& message) {
    Harness draft;
    auto stream = draft.Connect();
    stream.Send(message);
    EXPECT_TRUE(stream.sink->closed().has_value());
    return std::string(stream.sink->closed().value_or(absl::OkStatus()).message());
  };
  internal::v1::DraftRequest message = MakeOpen(1, kPrompt);
  message.add_next()->mutable_hello();
  EXPECT_THAT(ends(message), HasSubstr("next has Hello"));
  *message.mutable_next(0) = MakeOpen(2, kPrompt);
  message.mutable_next(0)->add_next()->mutable_close();
  EXPECT_THAT(ends(message), HasSubstr("has a next one"));
  message.mutable_next(0)->clear_next();
  message.add_next();
  EXPECT_THAT(ends(message), HasSubstr("has no kind"));
  message.mutable_next()->Clear();
  for (int i = 0; i < 1024; ++i) message.add_next()->mutable_close();
  EXPECT_THAT(ends(message), HasSubstr("1024 requests as its next ones: at most 1023"));
}

TEST(DraftSession, ShapesThatAreNotServedAreNamed) {
  Harness draft;
  auto stream = draft.Connect();
  stream.Send(MakeOpen(1, kPrompt));
  auto field = [&](auto spoil) {
    internal::v1::DraftRequest request = MakeAdvance(1, 1, kPrompt, 5);
    spoil(*request.mutable_advance());
    internal::v1::Block block = draft.Ask(stream, request);
    EXPECT_EQ(block.status(), internal::v1::STATUS_INVALID);
    return block.problem().field();
  };
  EXPECT_EQ(field([](internal::v1::Advance& a) { a.mutable_shape()->set_max_draft_tokens(0); }),
            "shape.max_draft_tokens");
  EXPECT_EQ(field([](internal::v1::Advance& a) { a.mutable_shape()->set_max_draft_tokens(17); }),
            "shape.max_draft_tokens");
  EXPECT_EQ(field([](internal::v1::Advance& a) { a.mutable_shape()->set_max_nodes(1); }),
            "shape.max_nodes");
  for (const float confidence : {-0.1f, 1.1f, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_EQ(field([confidence](internal::v1::Advance& a) {
                a.mutable_shape()->set_min_confidence(confidence);
              }),
              "shape.min_confidence");
  }
  EXPECT_EQ(field([](internal::v1::Advance& a) {
              a.mutable_shape()->set_min_confidence(0.5);
              a.mutable_shape()->set_max_nodes(1);
            }),
            "shape.min_confidence");
  EXPECT_EQ(field([](internal::v1::Advance& a) { a.mutable_shape()->set_max_outcomes(17); }),
            "shape.max_outcomes");
  EXPECT_EQ(field([](internal::v1::Advance& a) { a.mutable_prefix()->add_tokens(8); }),
            "prefix.tokens[0]");
  field([](internal::v1::Advance& a) {
    a.GetReflection()->MutableUnknownFields(&a)->AddVarint(900, 1);
  });
  EXPECT_EQ(draft.Ask(stream, MakeAdvance(1, 1, kPrompt, 5)).status(), internal::v1::STATUS_OK);
}

TEST(DraftSession, CloseWhileItWaitsAndSecondAdvance) {
  Harness draft;
  auto stream = draft.Connect();
  stream.Send(MakeOpen(1, kPrompt));
  stream.Send(MakeAdvance(1, 1, kPrompt, 5));
  stream.Send(MakeAdvance(1, 2, kPrompt, 5));
  stream.Send(MakeClose(1));
  draft.RunAll();
  auto blocks = stream.sink->Take();
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].status(), internal::v1::STATUS_INVALID);
  EXPECT_EQ(blocks[0].round(), 2u);
  EXPECT_EQ(blocks[1].status(), internal::v1::STATUS_CLOSED);
  EXPECT_EQ(blocks[1].round(), 1u);
  EXPECT_EQ(draft.model.live_caches(), 0);
}

TEST(DraftSession, FailedModelEndsItsSequenceOnly) {
  bool fail = false;
  testing::TableModelOptions model;
  model.before_pass = [&fail](absl::Span<const model::ForwardPart>) {
    return fail ? absl::InternalError("device lost") : absl::OkStatus();
  };
  Harness draft({}, model);
  auto stream = draft.Connect();
  stream.Send(MakeOpen(1, kPrompt));
  stream.Send(MakeOpen(2, kPrompt));
  draft.RunAll();
  fail = true;
  std::vector<std::string> lines;
  {
    base::ScopedLogSink log(
        [&lines](const base::LogEntry& entry) { lines.emplace_back(entry.message); });
    EXPECT_EQ(draft.Ask(stream, MakeAdvance(1, 1, kPrompt, 5)).status(),
              internal::v1::STATUS_INTERNAL);
  }
  EXPECT_EQ(lines, std::vector<std::string>(
                       {"drafter_failed drafter=model status=\"INTERNAL: device lost\""}));
  fail = false;
  EXPECT_EQ(draft.Ask(stream, MakeAdvance(1, 2, kPrompt, 5)).status(),
            internal::v1::STATUS_INTERNAL);
  EXPECT_EQ(draft.Ask(stream, MakeAdvance(2, 1, kPrompt, 5)).status(), internal::v1::STATUS_OK);
}

// An error of one pass is not told to others; that of a device that is lost ends all streams at
// once.
TEST(DraftSession, ALostDeviceEndsEveryStream) {
  const base::ScopedLogSink quiet([](const base::LogEntry&) {});
  testing::TableModelOptions model;
  bool lost = false;
  model.before_pass = [&lost](absl::Span<const model::ForwardPart>) {
    return lost ? absl::InternalError("launch failed") : absl::OkStatus();
  };
  model.device_status = [] { return absl::InternalError("an illegal memory access (700)"); };
  Harness draft({}, model);
  auto stream = draft.Connect();
  auto other = draft.Connect();
  stream.Send(MakeOpen(1, kPrompt));
  draft.RunAll();
  EXPECT_TRUE(draft.executor->failure().ok());
  lost = true;
  stream.Send(MakeAdvance(1, 1, kPrompt, 5));
  draft.RunAll();
  auto late = draft.Connect();
  draft.RunAll();
  for (const auto* one : {&stream, &other, &late}) {
    ASSERT_TRUE(one->sink->closed().has_value());
    EXPECT_EQ(one->sink->closed()->code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_THAT(draft.executor->failure().message(), ::testing::HasSubstr("(700)"));
  EXPECT_EQ(draft.executor->active_sequences(), 0u);
}

}  // namespace
}  // namespace tandem::draft_service::session_test
