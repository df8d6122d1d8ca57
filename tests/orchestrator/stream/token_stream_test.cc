#include "orchestrator/stream/token_stream.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tandem::orchestrator {
namespace {

// Token i is the letter 'a' + i; token 25 has no text until the next one or the end.
class SlowDetokenizer final : public Detokenizer {
 public:
  absl::StatusOr<std::string> Feed(uint32_t id) override {
    if (id >= 1000) return absl::InvalidArgumentError("no such token");
    std::string text = std::exchange(late_, {});
    if (id == 25) {
      late_ = "z";
      return text;
    }
    return text + static_cast<char>('a' + id);
  }
  std::string Finish() override { return std::exchange(late_, {}); }

 private:
  std::string late_;
};

class Collector final : public DeltaSink {
 public:
  void Send(TextDelta delta) override { deltas.push_back(std::move(delta)); }
  void SendPrompt(PromptLogprobs piece) override { prompt.push_back(std::move(piece)); }
  std::string text() const {
    std::string all;
    for (const TextDelta& delta : deltas) all += delta.text;
    return all;
  }
  std::vector<uint32_t> ids() const {
    std::vector<uint32_t> all;
    for (const TextDelta& delta : deltas) all.insert(all.end(), delta.ids.begin(), delta.ids.end());
    return all;
  }
  std::vector<TextDelta> deltas;
  std::vector<PromptLogprobs> prompt;
};

struct Fixture {
  explicit Fixture(GenerationRequest request, uint32_t max_undelivered = 1024)
      : stream(request, std::make_unique<SlowDetokenizer>(), sink, max_undelivered, unread) {}
  Collector sink;
  UnreadCall unread{nullptr, 4000};
  TokenStream stream;
};

GenerationRequest Request(uint32_t max_tokens) {
  GenerationRequest request;
  request.max_tokens = max_tokens;
  return request;
}

using Ids = std::vector<uint32_t>;

TEST(TokenStream, TextComesLaterThanItsIdButByTheEnd) {
  Fixture f(Request(3));
  auto appended = f.stream.Append(Ids{0, 25});
  EXPECT_EQ(f.sink.text(), "a");
  EXPECT_EQ(f.sink.ids(), (Ids{0, 25}));
  EXPECT_FALSE(appended->finish.has_value());
  appended = f.stream.Append(Ids{25, 7, 7});
  EXPECT_EQ(appended->used, 1u);
  EXPECT_EQ(appended->finish, Finish::kLength);
  EXPECT_EQ(f.sink.text(), "azz");
  EXPECT_EQ(f.stream.output_tokens(), 3u);
}

TEST(TokenStream, AnEndTokenIsReportedAndHasNoText) {
  GenerationRequest request = Request(100);
  request.sampling.stop_token_ids = {9, 4};
  request.stop_strings = {"abq"};
  Fixture f(request);
  auto appended = f.stream.Append(Ids{0, 1, 4, 5});
  EXPECT_EQ(appended->finish, Finish::kStop);
  EXPECT_EQ(appended->used, 3u);
  EXPECT_EQ(f.sink.text(), "ab") << "what was held back for the stop string comes, too";
  EXPECT_EQ(f.sink.ids(), (Ids{0, 1, 4}));
  EXPECT_EQ(f.stream.stop_string(), "");
}

std::vector<TextRun> RunsOf(const Collector& sink) {
  std::vector<TextRun> all;
  for (const TextDelta& delta : sink.deltas) {
    size_t bytes = 0;
    for (const TextRun& run : delta.runs) {
      bytes += run.bytes;
      all.push_back(run);
    }
    EXPECT_EQ(bytes, delta.text.size()) << delta.text;
  }
  return all;
}

TEST(TokenStream, RunsTellWhichTextWasDrafted) {
  GenerationRequest request = Request(100);
  request.text_runs = true;
  request.stop_strings = {"def", "q"};
  Fixture f(request);
  // The 'z' of token 25 comes with the token after it. "de" waits, for it may be a stop string.
  ASSERT_TRUE(f.stream.Append(Ids{0, 1, 25}, {}, 2).ok());
  ASSERT_TRUE(f.stream.Append(Ids{2, 3, 4}, {}, 1).ok());
  ASSERT_TRUE(f.stream.Append(Ids{6, 16}, {}, 1).ok());
  EXPECT_EQ(f.sink.text(), "abzcdeg");
  const std::vector<TextRun> runs = {{2, true}, {2, true}, {2, false}, {1, true}};
  EXPECT_EQ(RunsOf(f.sink), runs);
}

TEST(TokenStream, RunsOfDeltasThatAreJoinedAreJoined) {
  GenerationRequest request = Request(100);
  request.text_runs = true;
  Fixture f(request);
  f.stream.HoldBack();
  ASSERT_TRUE(f.stream.Append(Ids{0, 1}, {}, 1).ok());
  ASSERT_TRUE(f.stream.Append(Ids{2}).ok());
  f.stream.Release();
  const std::vector<TextRun> runs = {{1, true}, {2, false}};
  EXPECT_EQ(RunsOf(f.sink), runs);
}

TEST(TokenStream, AStopStringThatTheEndCompletesCounts) {
  GenerationRequest request = Request(2);
  request.stop_strings = {"az"};
  Fixture f(request);
  auto appended = f.stream.Append(Ids{0, 25});
  EXPECT_EQ(appended->finish, Finish::kStop);
  EXPECT_EQ(f.stream.stop_string(), "az");
  EXPECT_EQ(f.sink.text(), "");
  EXPECT_EQ(f.sink.ids(), (Ids{0, 25}));
}

TEST(TokenStream, AStopStringCountsOnceTheMinimumIsThere) {
  struct Case {
    uint32_t minimum;
    size_t ids;
    std::string text;
  };
  // "ab" is complete after 2 tokens, after 5, and after 8.
  for (const Case& c : {Case{0, 2, ""}, Case{1, 2, ""}, Case{2, 5, "abc"}, Case{4, 5, "abc"},
                        Case{5, 8, "abcabc"}, Case{7, 8, "abcabc"}, Case{8, 9, "abcabcabc"}}) {
    for (size_t step = 1; step <= 9; ++step) {
      GenerationRequest request = Request(9);
      request.stop_strings = {"ab"};
      request.sampling.min_tokens = c.minimum;
      Fixture f(request);
      const Ids ids = {0, 1, 2, 0, 1, 2, 0, 1, 2};
      std::optional<Finish> finish;
      for (size_t i = 0; i < ids.size() && !finish.has_value(); i += step) {
        const size_t size = std::min(step, ids.size() - i);
        finish = f.stream.Append(absl::MakeConstSpan(ids).subspan(i, size))->finish;
      }
      EXPECT_EQ(f.sink.ids().size(), c.ids) << c.minimum;
      EXPECT_EQ(f.sink.text(), c.text) << c.minimum;
      EXPECT_EQ(finish, c.ids < 9 ? Finish::kStop : Finish::kLength);
    }
  }
}

TEST(TokenStream, AMatchThatBeginsBeforeTheMinimumAndEndsAfterItCounts) {
  GenerationRequest request = Request(9);
  request.stop_strings = {"bc", "ab"};
  request.sampling.min_tokens = 2;
  Fixture f(request);
  auto appended = f.stream.Append(Ids{0, 1, 2, 3});
  EXPECT_EQ(appended->finish, Finish::kStop);
  EXPECT_EQ(appended->used, 3u);
  EXPECT_EQ(f.stream.stop_string(), "bc") << "\"ab\" came too early";
  EXPECT_EQ(f.sink.text(), "a");
}

TEST(TokenStream, LogprobsGoWithTheirIdsAndEndWithThem) {
  GenerationRequest request = Request(100);
  request.sampling.stop_token_ids = {9};
  Fixture f(request, 100);
  const auto of = [](const Ids& ids) {
    std::vector<TokenLogprobs> logprobs;
    for (uint32_t id : ids) logprobs.push_back({-float(id), {{id, -1}}});
    return logprobs;
  };
  for (const Ids& ids : {Ids{0, 1}, Ids{2}, Ids{3, 9, 4, 5}}) {
    ASSERT_TRUE(f.stream.Append(ids, of(ids)).ok());
  }
  std::vector<uint32_t> seen;
  for (const TextDelta& delta : f.sink.deltas) {
    ASSERT_EQ(delta.logprobs.size(), delta.ids.size());
    for (size_t i = 0; i < delta.ids.size(); ++i) {
      EXPECT_EQ(delta.logprobs[i].logprob, -float(delta.ids[i]));
      EXPECT_EQ(delta.logprobs[i].top[0].token, delta.ids[i]);
      seen.push_back(delta.ids[i]);
    }
  }
  EXPECT_EQ(seen, (Ids{0, 1, 2, 3, 9}));
  EXPECT_EQ(f.stream.output_tokens(), 5u);
}

TEST(TokenStream, ThePromptIsAMessageOfItsOwn) {
  Fixture f(Request(100));
  f.stream.SendPrompt({1, {7}, {{-1, {}}}});
  ASSERT_TRUE(f.stream.Append(Ids{0}).ok());
  ASSERT_EQ(f.sink.prompt.size(), 1u);
  EXPECT_EQ(f.sink.prompt[0].ids, Ids{7});
  EXPECT_EQ(f.stream.undelivered_tokens(), 1u) << "it is no output";
  f.stream.OnWritten();
  EXPECT_EQ(f.stream.undelivered_tokens(), 1u) << "that was the prompt";
  f.stream.OnWritten();
  EXPECT_EQ(f.stream.undelivered_tokens(), 0u);
}

TEST(TokenStream, AnUnknownTokenIsAnError) {
  Fixture f(Request(10));
  EXPECT_FALSE(f.stream.Append(Ids{1000}).ok());
}

TEST(TokenStream, ResumeSendsOnlyWhatWasHeldBack) {
  GenerationRequest request = Request(10);
  request.stop_strings = {"bcX"};
  Fixture f(request);
  ASSERT_TRUE(f.stream.Resume(Ids{0, 1, 2}).ok());
  EXPECT_TRUE(f.sink.deltas.empty());
  ASSERT_TRUE(f.stream.Append(Ids{3}).ok());
  EXPECT_EQ(f.sink.text(), "bcd") << "a was sent before the break, bc was not";
  EXPECT_EQ(f.sink.ids(), Ids{3});
  EXPECT_EQ(f.stream.output_tokens(), 4u);
}

TEST(TokenStream, ResumingAfterTheEndIsRefused) {
  GenerationRequest request = Request(10);
  request.sampling.stop_token_ids = {2};
  Fixture f(request);
  absl::Status status = f.stream.Resume(Ids{0, 2, 3});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("index 1"), absl::string_view::npos);
}

TEST(TokenStream, DeltasAreJoinedBehindASlowReader) {
  Fixture f(Request(10000), 100);
  for (uint32_t i = 0; i < 99; ++i) ASSERT_TRUE(f.stream.Append(Ids{i % 25}).ok());
  EXPECT_EQ(f.sink.deltas.size(), TokenStream::kMaxQueuedMessages);
  EXPECT_FALSE(f.stream.behind());
  ASSERT_TRUE(f.stream.Append(Ids{1, 1}).ok());
  EXPECT_TRUE(f.stream.behind());
  f.stream.OnWritten();
  EXPECT_EQ(f.sink.deltas.size(), TokenStream::kMaxQueuedMessages + 1);
  EXPECT_EQ(f.sink.ids().size(), 101u);
  EXPECT_EQ(f.stream.undelivered_tokens(), 100u);
  EXPECT_FALSE(f.stream.caught_up());
  for (size_t i = 0; i < TokenStream::kMaxQueuedMessages; ++i) f.stream.OnWritten();
  EXPECT_EQ(f.stream.undelivered_tokens(), 0u);
  EXPECT_TRUE(f.stream.caught_up());
}

TEST(TokenStream, WhatWasThereBeforeAResumptionIsNotOwedToTheReader) {
  Fixture f(Request(100), /*max_undelivered=*/4);
  ASSERT_TRUE(f.stream.Resume(Ids(50, 0)).ok());
  EXPECT_EQ(f.stream.undelivered_tokens(), 0u);
  EXPECT_FALSE(f.stream.behind());
}

// What the sink has got is its owner's to count.
TEST(TokenStream, CountsTheBytesOfWhatWaitsToBeJoined) {
  Fixture f(Request(10000));
  for (uint32_t i = 0; i < TokenStream::kMaxQueuedMessages; ++i) {
    ASSERT_TRUE(f.stream.Append(Ids{1}).ok());
  }
  EXPECT_EQ(f.unread.bytes(), 0u);
  ASSERT_TRUE(f.stream.Append(Ids{1, 2}).ok());
  EXPECT_GE(f.unread.bytes(), 2 * sizeof(uint32_t) + 2);
  EXPECT_LE(f.unread.bytes(), 64u);
  std::vector<TokenLogprobs> logprobs(1);
  logprobs[0].top.resize(20);
  size_t before = f.unread.bytes();
  ASSERT_TRUE(f.stream.Append(Ids{1}, logprobs).ok());
  EXPECT_GE(f.unread.bytes(), before + 20 * sizeof(sampling::TokenLogprob));
  f.stream.OnWritten();
  EXPECT_EQ(f.sink.deltas.back().ids.size(), 3u);
  EXPECT_EQ(f.unread.bytes(), 0u);
}

TEST(TokenStream, IsBehindWithTheBytesOfTheWholeCall) {
  Fixture f(Request(10000));
  f.unread.Add(4001);  // of records, say, or of another sample
  EXPECT_TRUE(f.stream.behind());
  f.unread.Remove(1);
  EXPECT_FALSE(f.stream.behind());
  EXPECT_FALSE(f.stream.caught_up());
  f.unread.Remove(2000);
  EXPECT_TRUE(f.stream.caught_up());
  EXPECT_EQ(f.stream.unread_bytes(), 2000u);
}

}  // namespace
}  // namespace tandem::orchestrator
