// Every status that a Step can be answered with: provoked at a real target over the wire, where it
// hurts nobody else in its Batch; and handled by a real orchestrator, whose texts stay what they
// are.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/concurrency/mutex.h"
#include "common/messages/handshake.h"
#include "common/random/random.h"
#include "common/speculation/prefix.h"
#include "common/transport/channel.h"
#include "common/transport/client_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/peers/links.h"
#include "tests/integration/cluster.h"
#include "tests/integration/requests.h"
#include "tests/integration/target_relay.h"
#include "tests/support/wait.h"

namespace tandem::testing::statuses_test {
namespace {

using ::testing::HasSubstr;

// ---- at the target ----

const std::vector<uint32_t> kPrompt = {263, 793, 286, 300, 410};

internal::v1::Step MakeStep(uint64_t sequence, uint64_t round, absl::Span<const uint32_t> committed,
                            uint32_t keep) {
  internal::v1::Step step;
  step.set_sequence(sequence);
  step.set_round(round);
  step.mutable_prefix()->set_keep(keep);
  for (uint32_t token : committed.subspan(keep)) step.mutable_prefix()->add_tokens(token);
  step.mutable_prefix()->set_hash(speculation::PrefixHash(committed));
  return step;
}

internal::v1::Step FirstStep(uint64_t sequence) {
  internal::v1::Step step = MakeStep(sequence, 1, kPrompt, 0);
  step.mutable_options()->mutable_sampling()->set_temperature(0);
  step.mutable_options()->set_rule(v1::RULE_GREEDY);
  step.mutable_options()->set_prompt_tokens(static_cast<uint32_t>(kPrompt.size()));
  step.mutable_options()->set_max_length(64);
  return step;
}

// A bare client: sends Batches and collects the verdicts by sequence and round.
class RawClient {
 public:
  explicit RawClient(int target_port) {
    auto handler = std::make_unique<Handler>(*this);
    sink_ = orchestrator::TargetStreams(
        transport::MakeChannel(absl::StrCat("127.0.0.1:", target_port)))(std::move(handler));
    internal::v1::TargetRequest request;
    request.mutable_hello()->set_protocol_revision(messages::kProtocolRevision);
    request.mutable_hello()->set_client_id("a bare client");
    request.mutable_hello()->set_incarnation(1);
    sink_->Send(std::move(request));
  }
  ~RawClient() {
    sink_->Close(absl::OkStatus());
    concurrency::MutexLock lock(mutex_);
    while (!done_) changed_.Wait(mutex_);
  }

  // Sends the Steps in one Batch; their verdicts in the same order, when all have come.
  std::vector<internal::v1::Verdict> Ask(const std::vector<internal::v1::Step>& steps) {
    internal::v1::TargetRequest request;
    for (const internal::v1::Step& step : steps) *request.mutable_batch()->add_steps() = step;
    {
      concurrency::MutexLock lock(mutex_);
      verdicts_.clear();
    }
    sink_->Send(std::move(request));
    concurrency::MutexLock lock(mutex_);
    while (verdicts_.size() < steps.size() && !done_) changed_.Wait(mutex_);
    std::vector<internal::v1::Verdict> answers;
    for (const internal::v1::Step& step : steps) {
      auto it = std::find_if(
          verdicts_.begin(), verdicts_.end(), [&](const internal::v1::Verdict& verdict) {
            return verdict.sequence() == step.sequence() && verdict.round() == step.round();
          });
      TANDEM_CHECK(it != verdicts_.end()) << "no verdict for sequence " << step.sequence();
      answers.push_back(*it);
    }
    TANDEM_CHECK(verdicts_.size() == steps.size()) << "a verdict too many";
    return answers;
  }

 private:
  class Handler final : public transport::StreamHandler<internal::v1::TargetReply> {
   public:
    explicit Handler(RawClient& client) : client_(client) {}
    void OnMessage(internal::v1::TargetReply reply) override {
      concurrency::MutexLock lock(client_.mutex_);
      for (const internal::v1::Verdict& verdict : reply.verdicts().verdicts()) {
        client_.verdicts_.push_back(verdict);
      }
      client_.changed_.NotifyAll();
    }
    void OnDone(absl::Status /*status*/) override {
      concurrency::MutexLock lock(client_.mutex_);
      client_.done_ = true;
      client_.changed_.NotifyAll();
    }

   private:
    RawClient& client_;
  };

  std::shared_ptr<transport::Sink<internal::v1::TargetRequest>> sink_;
  concurrency::Mutex mutex_;
  concurrency::CondVar changed_;
  std::vector<internal::v1::Verdict> verdicts_ TANDEM_GUARDED_BY(mutex_);
  bool done_ TANDEM_GUARDED_BY(mutex_) = false;
};

std::vector<internal::v1::Status> StatusesOf(const std::vector<internal::v1::Verdict>& verdicts) {
  std::vector<internal::v1::Status> statuses;
  for (const internal::v1::Verdict& verdict : verdicts) statuses.push_back(verdict.status());
  return statuses;
}

TEST(Statuses, ABadStepInAGoodBatchHurtsOnlyItself) {
  ClusterOptions options = DemoOptions();
  options.max_sequences = 2;
  InProcessCluster cluster(std::move(options));
  RawClient client(cluster.target_port());

  const std::vector<internal::v1::Verdict> opened = client.Ask({FirstStep(1), FirstStep(2)});
  ASSERT_EQ(opened[0].status(), internal::v1::STATUS_OK) << opened[0].DebugString();
  ASSERT_EQ(opened[0].entries_size(), 1);
  std::vector<uint32_t> committed = kPrompt;
  committed.push_back(opened[0].entries(0).next_token());
  const uint32_t held = static_cast<uint32_t>(kPrompt.size());

  const internal::v1::Step good = MakeStep(1, 2, committed, held);
  const internal::v1::Step stale = MakeStep(2, 1, kPrompt, held);
  const internal::v1::Step unknown = MakeStep(3, 1, kPrompt, 3);
  internal::v1::Step invalid = FirstStep(4);
  invalid.mutable_options()->mutable_sampling()->set_temperature(-1);
  const internal::v1::Step without_slot = FirstStep(5);
  internal::v1::Step expired = FirstStep(6);
  expired.set_remaining_us(1);  // over before the device's thread can look at it

  const std::vector<internal::v1::Verdict> mixed =
      client.Ask({stale, unknown, invalid, good, without_slot, expired});
  EXPECT_THAT(StatusesOf(mixed),
              ::testing::ElementsAre(internal::v1::STATUS_STALE, internal::v1::STATUS_NEED_PREFIX,
                                     internal::v1::STATUS_INVALID, internal::v1::STATUS_OK,
                                     internal::v1::STATUS_NO_SLOT, internal::v1::STATUS_EXPIRED));
  EXPECT_EQ(mixed[1].problem().held(), 0u);
  EXPECT_EQ(mixed[2].problem().field(), "options.sampling.temperature");
  EXPECT_GT(mixed[4].problem().retry_after_us(), 0u);

  // The good one's entries are those that it gets alone: here by replaying it.
  internal::v1::Step again = FirstStep(1);
  again.set_round(2);
  *again.mutable_prefix() = MakeStep(1, 2, committed, 0).prefix();
  const std::vector<internal::v1::Verdict> alone = client.Ask({again});
  ASSERT_EQ(alone[0].status(), internal::v1::STATUS_OK);
  ASSERT_EQ(mixed[3].entries_size(), alone[0].entries_size());
  for (int i = 0; i < alone[0].entries_size(); ++i) {
    EXPECT_EQ(mixed[3].entries(i).SerializeAsString(), alone[0].entries(i).SerializeAsString());
  }
}

TEST(Statuses, ADrainingTargetFinishesWhatItHas) {
  InProcessCluster cluster(DemoOptions());
  RawClient client(cluster.target_port());
  const std::vector<internal::v1::Verdict> opened = client.Ask({FirstStep(1)});
  std::vector<uint32_t> committed = kPrompt;
  committed.push_back(opened[0].entries(0).next_token());
  cluster.DrainTarget();
  EXPECT_THAT(
      StatusesOf(client.Ask(
          {FirstStep(2), MakeStep(1, 2, committed, static_cast<uint32_t>(kPrompt.size()))})),
      ::testing::ElementsAre(internal::v1::STATUS_DRAINING, internal::v1::STATUS_OK));
}

// ---- at the orchestrator ----

// Answers some Steps itself, each time with the status that came least often so far among those
// that suit the Step.
class Troublemaker {
 public:
  std::optional<internal::v1::Verdict> operator()(const internal::v1::Step& step) {
    concurrency::MutexLock lock(mutex_);
    const random::RoundKey key{7, 0, ++steps_};
    const double often = step.has_options() ? 0.3 : 0.1;
    if (random::Uniform(key, 0, random::Purpose::kUser) >= often) return std::nullopt;
    std::optional<internal::v1::Status> min;
    for (internal::v1::Status status : kStatuses) {
      if (!Suits(step, status)) continue;
      if (!min.has_value() || provoked_[status] < provoked_[*min]) min = status;
    }
    ++provoked_[*min];
    internal::v1::Verdict verdict =
        Refuse(step, *min, *min == internal::v1::STATUS_INVALID ? "candidates" : "");
    if (*min == internal::v1::STATUS_NO_SLOT) verdict.mutable_problem()->set_retry_after_us(2000);
    if (*min == internal::v1::STATUS_NEED_PREFIX)
      verdict.mutable_problem()->set_held(Held(step, key));
    return verdict;
  }

  std::map<internal::v1::Status, int> provoked() {
    concurrency::MutexLock lock(mutex_);
    return provoked_;
  }

 private:
  // The pickiest first: these win a tie.
  static constexpr std::array kStatuses = {
      internal::v1::STATUS_NO_SLOT,     internal::v1::STATUS_DRAINING, internal::v1::STATUS_INVALID,
      internal::v1::STATUS_NEED_PREFIX, internal::v1::STATUS_STALE,    internal::v1::STATUS_EXPIRED,
      internal::v1::STATUS_CLOSED,      internal::v1::STATUS_INTERNAL};

  // What a target may say: no slot and draining to new sequences; invalid, for which the block is
  // to blame, to a Step with one.
  static bool Suits(const internal::v1::Step& step, internal::v1::Status status) {
    if (status == internal::v1::STATUS_NO_SLOT || status == internal::v1::STATUS_DRAINING)
      return step.has_options();
    if (status == internal::v1::STATUS_NEED_PREFIX) return step.prefix().keep() > 0;
    if (status == internal::v1::STATUS_INVALID) return step.candidates_size() > 0;
    return true;
  }
  static uint32_t Held(const internal::v1::Step& step, const random::RoundKey& key) {
    return static_cast<uint32_t>(random::Uniform(key, 1, random::Purpose::kUser) *
                                 step.prefix().keep());
  }

  concurrency::Mutex mutex_;
  uint32_t steps_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::map<internal::v1::Status, int> provoked_ TANDEM_GUARDED_BY(mutex_);
};

TEST(Statuses, NoneOfThemChangesAText) {
  Troublemaker trouble;
  std::unique_ptr<TargetRelay> relay;
  ClusterOptions options = DemoOptions();
  options.loop.backoff_max = absl::Milliseconds(50);
  options.target_proxy = [&](const std::string& target) {
    relay = std::make_unique<TargetRelay>(
        target, [&trouble](const internal::v1::Step& step) { return trouble(step); });
    return relay->address();
  };
  InProcessCluster cluster(std::move(options));

  std::vector<v1::GenerateRequest> requests;
  std::vector<std::vector<uint32_t>> expected;
  const auto target = LoadModel(DemoTarget());
  uint32_t draft_tokens = 0;
  for (const std::string& text : TenPrompts()) {
    const std::vector<uint32_t> prompt = *cluster.tokenizer().Encode(text);
    requests.push_back(GreedyRequest(prompt, 100, draft_tokens++ % 5));
    expected.push_back(GreedyAlone(*target, prompt, 100, cluster.tokenizer().vocabulary_size()));
  }
  const std::vector<Reply> replies = SendAll(cluster.channel(), requests, 10);
  uint32_t replays = 0;
  for (size_t i = 0; i < replies.size(); ++i) {
    EXPECT_TRUE(replies[i].status.ok()) << replies[i].status;
    EXPECT_EQ(replies[i].ids, expected[i]);
    replays += replies[i].record().target_replays();
  }
  EXPECT_GT(replays, 5u);
  std::map<internal::v1::Status, int> provoked = trouble.provoked();
  for (internal::v1::Status status :
       {internal::v1::STATUS_NEED_PREFIX, internal::v1::STATUS_NO_SLOT, internal::v1::STATUS_STALE,
        internal::v1::STATUS_INVALID, internal::v1::STATUS_EXPIRED, internal::v1::STATUS_CLOSED,
        internal::v1::STATUS_DRAINING, internal::v1::STATUS_INTERNAL}) {
    EXPECT_GT(provoked[status], 0) << internal::v1::Status_Name(status);
  }
  EXPECT_TRUE(cluster.AllFreed());
}

// Our own mistake, for which no draft is to blame: that request ends and names the field, and the
// next one is served.
TEST(Statuses, AnInvalidStepEndsItsRequestOnly) {
  std::unique_ptr<TargetRelay> relay;
  ClusterOptions options = DemoOptions();
  options.target_proxy = [&](const std::string& target) {
    relay = std::make_unique<TargetRelay>(
        target, [](const internal::v1::Step& step) -> std::optional<internal::v1::Verdict> {
          if (!step.has_options() || step.options().seed() != 13) return std::nullopt;
          return Refuse(step, internal::v1::STATUS_INVALID, "options.rule");
        });
    return relay->address();
  };
  InProcessCluster cluster(std::move(options));
  std::vector<v1::GenerateRequest> requests(4, GreedyRequest(kPrompt, 40, 2));
  requests[1].set_seed(13);
  const std::vector<Reply> replies = SendAll(cluster.channel(), requests, 4);
  for (size_t i = 0; i < replies.size(); ++i) {
    if (i == 1) {
      EXPECT_EQ(replies[i].status.code(), absl::StatusCode::kInternal);
      EXPECT_THAT(std::string(replies[i].status.message()), HasSubstr("options.rule"));
    } else {
      EXPECT_TRUE(replies[i].status.ok()) << replies[i].status;
      EXPECT_EQ(replies[i].ids, replies[0].ids);
    }
  }
  EXPECT_TRUE(cluster.AllFreed());
}

}  // namespace
}  // namespace tandem::testing::statuses_test
