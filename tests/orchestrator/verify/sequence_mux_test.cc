#include "orchestrator/verify/sequence_mux.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::orchestrator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr base::Incarnation kIncarnation{9};

struct FakeSink final : SequenceMux::Sink {
  bool Send(internal::v1::TargetRequest message) override {
    sent.push_back(std::move(*message.mutable_batch()));
    return true;
  }
  void Close(absl::Status) override {}
  size_t queued() const override { return 0; }
  std::vector<internal::v1::Batch> sent;
};

struct Recorder final : VerifyEvents {
  void OnVerifyReady() override {}
  void OnSlotWanted() override {}
  void OnVerifyLost(base::Incarnation, std::string) override {}
  void OnVerdict(base::Incarnation incarnation, VerifyReply reply) override {
    heard.emplace_back(incarnation, reply.round);
  }
  std::vector<std::pair<base::Incarnation, uint64_t>> heard;
};

struct Fixture {
  Fixture() {
    mux->Begin(sink);
    mux->OnWritten();  // the Hello
  }
  static VerifyStep Step(uint64_t round) {
    VerifyStep step;
    step.round = round;
    return step;
  }
  std::unique_ptr<SequenceMux::Link> Open(std::shared_ptr<VerifyEvents> events) {
    return mux->Open(base::Advance(last_sequence), std::move(events));
  }
  static void AddVerdict(uint64_t sequence, uint64_t round, internal::v1::Verdicts& verdicts) {
    internal::v1::Verdict& verdict = *verdicts.add_verdicts();
    verdict.set_sequence(sequence);
    verdict.set_round(round);
    verdict.set_status(internal::v1::STATUS_OK);
  }
  void Answer(uint64_t sequence, uint64_t round) {
    internal::v1::Verdicts verdicts;
    AddVerdict(sequence, round, verdicts);
    mux->OnVerdicts(verdicts);
  }

  base::SequenceId last_sequence{};
  std::shared_ptr<FakeSink> sink = std::make_shared<FakeSink>();
  std::shared_ptr<SequenceMux> mux = std::make_shared<SequenceMux>(kIncarnation, 1 << 20);
  std::shared_ptr<Recorder> a = std::make_shared<Recorder>();
  std::shared_ptr<Recorder> b = std::make_shared<Recorder>();
};

TEST(SequenceMux, TakesSequencesWhileItsStreamIsUp) {
  Fixture f;
  EXPECT_EQ(f.Open(f.a), nullptr) << "not greeted yet";
  f.mux->Up();
  auto link = f.Open(f.a);
  ASSERT_NE(link, nullptr);
  EXPECT_TRUE(link->alive());
  EXPECT_EQ(link->incarnation(), kIncarnation);
  f.mux->GivenUp();
  EXPECT_FALSE(link->alive());
  EXPECT_EQ(f.Open(f.b), nullptr);
  EXPECT_EQ(f.mux->sequences(), 1u) << "its end has not come";
  EXPECT_THAT(f.mux->End(), ElementsAre(f.a));
  f.mux->Up();
  EXPECT_EQ(f.Open(f.b), nullptr) << "over is over";
}

TEST(SequenceMux, AVerdictIsOfTheSequenceThatItNames) {
  Fixture f;
  f.mux->Up();
  auto a = f.Open(f.a);
  auto b = f.Open(f.b);
  auto silent = f.Open(f.b);  // sends nothing
  a->Submit(Fixture::Step(1));
  f.mux->OnWritten();
  b->Submit(Fixture::Step(2));
  ASSERT_EQ(f.sink->sent.size(), 2u);
  const uint64_t of_a = f.sink->sent[0].steps(0).sequence();
  const uint64_t of_b = f.sink->sent[1].steps(0).sequence();
  f.Answer(of_b, 2);
  f.Answer(of_a, 1);
  for (uint64_t nobody = 0; nobody < 10; ++nobody) {
    if (nobody != of_a && nobody != of_b) f.Answer(nobody, 3);
  }
  EXPECT_THAT(f.a->heard, ElementsAre(std::pair(kIncarnation, 1u)));
  EXPECT_THAT(f.b->heard, ElementsAre(std::pair(kIncarnation, 2u)));
  a.reset();
  f.Answer(of_a, 1);
  EXPECT_EQ(f.a->heard.size(), 1u) << "it was closed";
}

// Each verdict leads to the sequence's next Step at once.
struct Follower final : VerifyEvents {
  void OnVerifyReady() override {}
  void OnSlotWanted() override {}
  void OnVerifyLost(base::Incarnation, std::string) override {}
  void OnVerdict(base::Incarnation, VerifyReply reply) override {
    link->Submit(Fixture::Step(reply.round + 1));
  }
  std::unique_ptr<SequenceMux::Link> link;
};

TEST(SequenceMux, TheStepsThatVerdictsOfOneMessageLeadToGoTogether) {
  constexpr int kSequences = 70;
  Fixture f;
  f.mux->Up();
  std::vector<std::shared_ptr<Follower>> followers;
  internal::v1::Verdicts verdicts;
  for (int i = 0; i < kSequences; ++i) {
    followers.push_back(std::make_shared<Follower>());
    followers[i]->link = f.Open(followers[i]);
    followers[i]->link->Submit(Fixture::Step(1));
    f.mux->OnWritten();
    Fixture::AddVerdict(base::Number(followers[i]->link->sequence()), 1, verdicts);
  }
  ASSERT_EQ(f.sink->sent.size(), static_cast<size_t>(kSequences)) << "each was sent at once";
  f.sink->sent.clear();
  f.mux->OnVerdicts(verdicts);
  ASSERT_EQ(f.sink->sent.size(), 1u);
  EXPECT_EQ(f.sink->sent[0].steps_size(), 64) << "the others wait no longer for those behind them";
  f.mux->OnWritten();
  ASSERT_EQ(f.sink->sent.size(), 2u);
  EXPECT_EQ(f.sink->sent[1].steps_size(), kSequences - 64);
  for (auto& follower : followers) follower->link = nullptr;  // the mux holds them, and they it
}

TEST(SequenceMux, ASequenceThatEndsTakesItsUnsentStepsAlong) {
  Fixture f;
  f.mux->Up();
  auto a = f.Open(f.a);
  auto b = f.Open(f.b);
  auto silent = f.Open(f.b);
  a->Submit(Fixture::Step(1));
  a->Submit(Fixture::Step(2));
  b->Submit(Fixture::Step(3));
  ASSERT_EQ(f.sink->sent.size(), 1u) << "the write is under way";
  const uint64_t of_a = f.sink->sent[0].steps(0).sequence();
  a.reset();
  silent.reset();
  f.mux->OnWritten();
  ASSERT_EQ(f.sink->sent.size(), 2u);
  EXPECT_THAT(f.sink->sent[1].close(), ElementsAre(of_a)) << "nothing was sent of the silent one";
  ASSERT_EQ(f.sink->sent[1].steps_size(), 1);
  EXPECT_EQ(f.sink->sent[1].steps(0).round(), 3u);
}

TEST(SequenceMux, AfterItsEndNothingIsSent) {
  Fixture f;
  f.mux->Up();
  auto a = f.Open(f.a);
  a->Submit(Fixture::Step(1));
  a->Submit(Fixture::Step(2));
  f.mux->End();
  f.mux->OnWritten();
  a->Submit(Fixture::Step(3));
  a.reset();
  EXPECT_EQ(f.sink->sent.size(), 1u);
  EXPECT_THAT(f.mux->End(), IsEmpty());
}

// It keeps its number, by which the target knows that it waits.
TEST(SequenceMux, AParkedSequenceDoesNotCountAndGoesOnUnderItsNumber) {
  Fixture f;
  f.mux->Up();
  auto a = f.Open(f.a);
  auto b = f.Open(f.b);
  a->Submit(Fixture::Step(1));
  f.mux->OnWritten();
  EXPECT_FALSE(a->taken());
  f.Answer(1, 1);
  EXPECT_TRUE(a->taken());
  a->Park();
  a->Park();
  EXPECT_EQ(f.mux->sequences(), 1u);
  a->Unpark();
  EXPECT_EQ(f.mux->sequences(), 2u);
  EXPECT_FALSE(a->taken());
  a->Submit(Fixture::Step(1));
  f.mux->OnWritten();
  a->Park();
  a.reset();
  f.mux->OnWritten();
  EXPECT_EQ(f.mux->sequences(), 1u);
  ASSERT_EQ(f.sink->sent.size(), 3u);
  EXPECT_EQ(f.sink->sent[0].steps(0).sequence(), 1u);
  EXPECT_EQ(f.sink->sent[1].steps(0).sequence(), 1u);
  EXPECT_THAT(f.sink->sent[2].close(), ElementsAre(1)) << "it waits no more";
}

}  // namespace
}  // namespace tandem::orchestrator
