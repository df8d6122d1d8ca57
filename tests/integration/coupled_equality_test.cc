// Rule coupled gives, id for id, what the target writes alone at the same seed: whatever the
// drafter is, dead, late or wrong ones too, alone and among others, after a replay and after a
// resumption, with options that look back. Rule greedy is its temperature 0.
#include <algorithm>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/integration/alone.h"
#include "tests/integration/cluster.h"
#include "tests/integration/requests.h"
#include "tests/netproxy/netproxy.h"

namespace tandem::testing {
namespace {

constexpr uint32_t kTokens = 120;
constexpr uint32_t kMinimum = 90;  // tokens, where the options have one
constexpr size_t kThen = 30;       // something happens when so many tokens have come

struct Case {
  double temperature;
  bool looks_back;  // frequency penalty, and an end token that may come after kMinimum
};

std::string Name(const Case& test) {
  return absl::StrCat("Temperature", static_cast<int>(10 * test.temperature),
                      test.looks_back ? "LooksBack" : "");
}
void PrintTo(const Case& test, std::ostream* out) { *out << Name(test); }

class CoupledEqualityTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    tokenizer_ = LoadTokenizer(DemoTarget());
    model_ = LoadModel(DemoTarget());
    prompt_ = *tokenizer_->Encode("The old captain looked at the sea and said");
    options_.sampling.temperature = GetParam().temperature;
    if (GetParam().looks_back) {
      options_.sampling.frequency_penalty = 0.5;
      options_.sampling.min_tokens = kMinimum;
      // Common ones, so that the text would end sooner without the minimum, and ends soon after it.
      for (const char* text : {" the", ".", ",", " and", " of", " to", " a"}) {
        const std::vector<uint32_t> ids = *tokenizer_->Encode(text);
        if (ids.size() == 1) options_.sampling.stop_token_ids.push_back(ids[0]);
      }
      ASSERT_GE(options_.sampling.stop_token_ids.size(), 3u);
    }
    options_.seed = 2026;
    options_.max_tokens = kTokens;
    options_.vocabulary_size = tokenizer_->vocabulary_size();
    expected_ = PlainAlone(*model_, prompt_, options_);
    if (GetParam().looks_back) {
      ASSERT_GT(expected_.size(), kMinimum);
    } else {
      ASSERT_EQ(expected_.size(), kTokens);
    }
  }

  // The orchestrator chooses among them.
  v1::GenerateRequest ChoosingRequest(const std::vector<std::string>& drafters) const {
    v1::GenerateRequest request = CoupledRequest(prompt_, options_, 4);
    request.mutable_speculation()->mutable_drafters()->Add(drafters.begin(), drafters.end());
    return request;
  }

  v1::GenerateRequest Request(uint32_t draft_tokens, const std::string& drafter = "model") const {
    v1::GenerateRequest request = CoupledRequest(prompt_, options_, draft_tokens);
    request.mutable_speculation()->set_drafter(drafter);
    return request;
  }

  void ExpectSameText(const Reply& reply) const {
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(reply.ids, expected_);
    EXPECT_EQ(reply.last.usage().completion_tokens(), expected_.size());
    EXPECT_TRUE(reply.record().exact());
    EXPECT_EQ(reply.record().rule(),
              GetParam().temperature == 0 ? v1::RULE_GREEDY : v1::RULE_COUPLED);
  }

  // The demo pair behind proxies.
  void StartBehindProxies() {
    ClusterOptions options = DemoOptions();
    options.target_proxy = [this](const std::string& address) {
      target_proxy_ = *netproxy::NetProxy::Start(address);
      return target_proxy_->address();
    };
    options.draft_proxy = [this](const std::string& address) {
      draft_proxy_ = *netproxy::NetProxy::Start(address);
      return draft_proxy_->address();
    };
    cluster_ = std::make_unique<InProcessCluster>(std::move(options));
  }

  // Sends the request, and calls `what` when kThen tokens have come.
  Reply SendAndThen(const v1::GenerateRequest& request, const std::function<void()>& what) {
    bool done = false;
    Reply reply = Send(cluster_->channel(), request, [&](const Reply& so_far) {
      if (so_far.ids.size() >= kThen && !std::exchange(done, true)) what();
    });
    EXPECT_TRUE(done);
    return reply;
  }

  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  std::unique_ptr<model::LanguageModel> model_;
  std::vector<uint32_t> prompt_;
  AloneOptions options_;
  std::vector<uint32_t> expected_;
  // They outlive the cluster's channels.
  std::unique_ptr<netproxy::NetProxy> target_proxy_, draft_proxy_;
  std::unique_ptr<InProcessCluster> cluster_;
};

TEST_P(CoupledEqualityTest, WithAnyDrafterAloneAndAmongOthers) {
  InProcessCluster cluster(PatientDemoOptions());
  std::vector<v1::GenerateRequest> requests = {Request(0),
                                               Request(1),
                                               Request(4),
                                               Request(8),
                                               Request(4, "prompt-lookup"),
                                               Request(4, "random"),
                                               Request(4, "context-ngram"),
                                               Request(4, "corpus-unigram"),
                                               Request(4, "corpus-bigram"),
                                               Request(4, "mixed"),
                                               Request(4, "cascade"),
                                               Request(8, "cascade")};
  requests.push_back(Request(4, "corpus-bigram"));
  requests.back().mutable_speculation()->set_proposal(v1::PROPOSAL_SAMPLED);
  requests.push_back(Request(4));
  requests.back().mutable_speculation()->set_auto_(true);
  requests.push_back(requests.back());
  requests.back().mutable_speculation()->set_length_policy(v1::LENGTH_POLICY_HEURISTIC);
  requests.push_back(Request(4));
  requests.back().mutable_speculation()->set_draft_temperature(0.3f);
  requests.push_back(Request(4));
  requests.back().mutable_speculation()->set_proposal(v1::PROPOSAL_GREEDY);
  for (const v1::GenerateRequest& request : requests) {
    SCOPED_TRACE(request.speculation().ShortDebugString());
    const Reply reply = Send(cluster.channel(), request);
    ExpectSameText(reply);
    if (request.speculation().fixed() == 4 && request.speculation().drafter() == "model") {
      EXPECT_GT(reply.record().accepted_tokens(), 10u) << reply.record().DebugString();
    }
  }
  // Among 32 others, of other seeds and lengths.
  const size_t own = requests.size();
  for (uint32_t i = 0; i < 32; ++i) {
    requests.push_back(Request(i % 6));
    requests.back().set_seed(i);
    requests.back().mutable_sampling()->set_temperature(i % 3 == 0 ? 0.0f : 0.9f);
  }
  const std::vector<Reply> replies = SendAll(cluster.channel(), requests, 64);
  for (size_t i = 0; i < own; ++i) {
    SCOPED_TRACE(requests[i].speculation().ShortDebugString());
    ExpectSameText(replies[i]);
  }
  for (const Reply& reply : replies) EXPECT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_TRUE(cluster.AllFreed());
}

// The orchestrator changes the drafter every few rounds, by what each brings.
TEST_P(CoupledEqualityTest, WithDraftersThatTakeTurns) {
  ClusterOptions options = PatientDemoOptions();
  options.always_tries_drafters = true;
  InProcessCluster cluster(std::move(options));
  const std::vector<v1::GenerateRequest> requests = {
      ChoosingRequest({"model", "context-ngram", "mixed"}),
      ChoosingRequest({"random", "model"}),
      ChoosingRequest({"auto"}),
  };
  EXPECT_TRUE(Send(cluster.channel(), Request(4)).status.ok());  // from now on auto knows them
  for (const v1::GenerateRequest& request : requests) {
    SCOPED_TRACE(request.speculation().ShortDebugString());
    const Reply reply = Send(cluster.channel(), request);
    ExpectSameText(reply);
    int drafted = 0;
    for (const v1::DrafterRecord& one : reply.record().drafters()) {
      if (one.drafted_rounds() > 0) ++drafted;
    }
    EXPECT_GE(drafted, 2) << reply.record().DebugString();
    EXPECT_EQ(reply.record().draft_reconnections(), 0u);
  }
  EXPECT_TRUE(cluster.AllFreed());
}

TEST_P(CoupledEqualityTest, SeveralSamplesEachAsAlone) {
  InProcessCluster cluster(DemoOptions());
  v1::GenerateRequest request = Request(4);
  request.set_samples(3);
  request.set_first_sample(5);
  const Reply reply = Send(cluster.channel(), request);
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  ASSERT_EQ(reply.samples.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    AloneOptions options = options_;
    options.sample_index = 5 + i;
    EXPECT_EQ(reply.samples[i].ids, PlainAlone(*model_, prompt_, options)) << i;
  }
  if (GetParam().temperature > 0) {
    EXPECT_NE(reply.samples[0].ids, reply.samples[1].ids);
  }
  EXPECT_TRUE(cluster.AllFreed());
}

// A drafter with a mind of its own, as `propose` has it.
class Odd final : public draft_service::Drafter {
 public:
  explicit Odd(std::function<speculation::CandidateTree(uint32_t)> propose)
      : propose_(std::move(propose)) {}
  absl::Status Accept(uint32_t, absl::Span<const uint32_t>) override { return absl::OkStatus(); }
  absl::StatusOr<speculation::CandidateTree> Propose(uint32_t max_draft_tokens) override {
    return propose_(max_draft_tokens);
  }

 private:
  const std::function<speculation::CandidateTree(uint32_t)> propose_;
};

ClusterOptions WithOdd(std::function<speculation::CandidateTree(uint32_t)> propose) {
  ClusterOptions options = PatientDemoOptions();
  options.instead_of_model.make = [propose](const speculation::SequenceSettings&,
                                            speculation::Proposal) {
    return absl::StatusOr<std::unique_ptr<draft_service::Drafter>>(std::make_unique<Odd>(propose));
  };
  return options;
}

TEST_P(CoupledEqualityTest, WithADrafterThatIsAlwaysWrong) {
  // A token that the text has not.
  uint32_t wrong = 1;
  while (std::find(expected_.begin(), expected_.end(), wrong) != expected_.end()) ++wrong;
  InProcessCluster cluster(WithOdd([wrong](uint32_t max_length) {
    speculation::CandidateTree block;
    block.tokens.assign(max_length, wrong);
    return block;
  }));
  const Reply reply = Send(cluster.channel(), Request(4));
  ExpectSameText(reply);
  EXPECT_EQ(reply.record().accepted_tokens(), 0u);
  EXPECT_GT(reply.record().rejected_rounds(), 60u) << reply.record().DebugString();
}

TEST_P(CoupledEqualityTest, WithADrafterThatLags) {
  ClusterOptions options = WithOdd([call = 0](uint32_t max_length) mutable {
    if (++call % 3 == 0) absl::SleepFor(absl::Milliseconds(60));
    speculation::CandidateTree block;
    block.tokens.assign(max_length, 7);
    return block;
  });
  options.loop.draft_wait = absl::Milliseconds(10);
  options.loop.draft_wait_floor = absl::Milliseconds(10);
  InProcessCluster cluster(std::move(options));
  const Reply reply = Send(cluster.channel(), Request(4));
  ExpectSameText(reply);
  EXPECT_GT(reply.Rounds("draft-late"), 5u) << reply.record().DebugString();
}

TEST_P(CoupledEqualityTest, WithADraftThatDiesOrStallsInTheMiddle) {
  StartBehindProxies();
  Reply reply = SendAndThen(Request(4), [&] { draft_proxy_->Reset(); });
  ExpectSameText(reply);
  EXPECT_GE(reply.record().draft_reconnections() + reply.Rounds("draft-lost"), 1u)
      << reply.record().DebugString();
  reply = SendAndThen(Request(4), [&] { draft_proxy_->Stall(netproxy::Direction::kToClient); });
  ExpectSameText(reply);
  EXPECT_GT(reply.Rounds("draft-late"), 10u) << reply.record().DebugString();
}

TEST_P(CoupledEqualityTest, AfterAReplayOnTheTarget) {
  StartBehindProxies();
  for (uint32_t draft_tokens : {0, 4}) {
    const Reply reply = SendAndThen(Request(draft_tokens), [&] { target_proxy_->Reset(); });
    ExpectSameText(reply);
    EXPECT_GE(reply.record().target_replays(), 1u) << reply.record().DebugString();
  }
}

TEST_P(CoupledEqualityTest, AfterAResumption) {
  InProcessCluster cluster(DemoOptions());
  for (size_t had : {size_t{1}, size_t{17}, size_t{60}, expected_.size() - 1}) {
    for (uint32_t draft_tokens : {0, 4}) {
      v1::GenerateRequest request = Request(draft_tokens);
      request.mutable_output_prefix_ids()->Add(expected_.begin(), expected_.begin() + had);
      const Reply rest = Send(cluster.channel(), request);
      ASSERT_TRUE(rest.status.ok()) << rest.status;
      EXPECT_EQ(rest.ids, std::vector<uint32_t>(expected_.begin() + had, expected_.end()))
          << had << " had, " << draft_tokens << " candidates";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Options, CoupledEqualityTest,
                         ::testing::Values(Case{0, true}, Case{0.7, false}, Case{1, true}),
                         [](const auto& info) { return Name(info.param); });

}  // namespace
}  // namespace tandem::testing
