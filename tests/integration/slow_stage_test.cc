// Whichever stage is slow, the trace, the metrics, Last and the records count its time to it, and
// to no other one.
#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "common/telemetry/attributes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/draft_service/serving/slow_drafter.h"
#include "tests/integration/cluster.h"
#include "tests/integration/stage_views.h"
#include "tests/netproxy/netproxy.h"

namespace tandem::testing {
namespace {

constexpr absl::Duration kSlower = absl::Milliseconds(20);

// Each Step takes kSlower more, as on a slower device.
class SlowerModel final : public model::LanguageModel {
 public:
  explicit SlowerModel(std::unique_ptr<model::LanguageModel> inner) : inner_(std::move(inner)) {}

  const model::ModelInfo& info() const override { return inner_->info(); }
  absl::StatusOr<std::unique_ptr<model::Cache>> NewCache(int max_length) override {
    return inner_->NewCache(max_length);
  }
  std::optional<model::CacheRoom> room() const override { return inner_->room(); }
  absl::StatusOr<model::Logits> Forward(absl::Span<const model::ForwardPart> parts) override {
    absl::SleepFor(kSlower);
    return inner_->Forward(parts);
  }
  int max_rows() const override { return inner_->max_rows(); }

 private:
  const std::unique_ptr<model::LanguageModel> inner_;
};

class SlowStage : public ::testing::Test {
 protected:
  static ClusterOptions Options() {
    ClusterOptions options = PatientDemoOptions();
    options.trace_ratio = 1;
    return options;
  }
  // In front of a service, slow each way.
  std::function<std::string(const std::string&)> SlowNetwork() {
    return [this](const std::string& address) {
      auto proxy = netproxy::NetProxy::Start(address);
      TANDEM_CHECK_OK(proxy);
      proxy_ = *std::move(proxy);
      proxy_->SetDelay(kSlower);
      return proxy_->address();
    };
  }

  // All views count the trouble's time to `stage`, and nothing twice: their stages add up to the
  // round, which one clock has measured. Each bound is one that a busy machine cannot break.
  void ExpectSlow(const StageViews& views, const std::string& stage) {
    EXPECT_GE(views.usual.at(stage), kSlower * 3 / 4) << Text(views.usual);
    for (const FinishedSpan& span : views.spans) {
      if (span.name != telemetry::kRoundSpan) continue;
      absl::Duration sum;
      for (const auto& [name, time] : OfSpan(span)) sum += time;
      EXPECT_LE(absl::AbsDuration(sum - span.duration), absl::Microseconds(8)) << "rounded";
    }
    // One source: they differ by what was rounded.
    for (const auto& [name, time] : views.trace) {
      for (const StageTimes* times : {&views.metrics, &views.timing, &views.records}) {
        EXPECT_LT(absl::AbsDuration(times->at(name) - time), absl::Microseconds(2)) << name;
      }
    }
  }

  std::unique_ptr<netproxy::NetProxy> proxy_;
};

// A span of this process's part and its child at the peer; the rounds without a draft have none.
struct Call {
  const FinishedSpan* here = nullptr;
  const FinishedSpan* there = nullptr;

  absl::Duration network() const { return here->duration - there->duration; }
};

std::vector<Call> Calls(const StageViews& views, absl::string_view here, absl::string_view there) {
  std::vector<Call> calls;
  for (const FinishedSpan& span : views.spans) {
    if (span.name != there) continue;
    for (const FinishedSpan& parent : views.spans) {
      if (parent.span_id != span.parent_id) continue;
      EXPECT_EQ(parent.name, here);
      calls.push_back({&parent, &span});
    }
  }
  return calls;
}
std::vector<Call> Drafts(const StageViews& views) {
  std::vector<Call> calls = Calls(views, telemetry::kProposeSpan, telemetry::kDraftServiceSpan);
  size_t drafted = 0;
  for (const v1::RoundRecord& round : views.reply.rounds)
    drafted += round.draft_tokens() > 0 ? 1 : 0;
  EXPECT_GE(calls.size(), drafted);
  EXPECT_GT(drafted, views.reply.rounds.size() / 2);
  return calls;
}
std::vector<Call> Verifies(const StageViews& views) {
  std::vector<Call> calls = Calls(views, telemetry::kVerifySpan, telemetry::kStepSpan);
  EXPECT_GE(calls.size(), views.reply.rounds.size());
  return calls;
}

TEST_F(SlowStage, ADraftThatTakesLonger) {
  ClusterOptions options = Options();
  draft_service::ModelDrafterOptions drafter;
  drafter.vocabulary_size = options.tokenizer->vocabulary_size();
  options.instead_of_model = draft_service::SlowDrafterFactory(
      draft_service::ModelDrafterFactory(*options.draft_model, drafter),
      [] { absl::SleepFor(kSlower); });
  InProcessCluster cluster(std::move(options));
  const StageViews views = Watch(cluster);
  ExpectSlow(views, "draft");
  for (const Call& call : Drafts(views)) {
    EXPECT_GE(call.there->duration, kSlower);
    EXPECT_GE(call.there->Int(telemetry::kComputed), absl::ToInt64Microseconds(kSlower));
  }
}

TEST_F(SlowStage, ANetworkThatTakesLongerToTheTarget) {
  ClusterOptions options = Options();
  options.target_proxy = SlowNetwork();
  InProcessCluster cluster(std::move(options));
  const StageViews views = Watch(cluster);
  ExpectSlow(views, "network");
  // There and back, in each.
  for (const Call& call : Verifies(views)) EXPECT_GE(call.network(), 2 * kSlower);
}

TEST_F(SlowStage, ANetworkThatTakesLongerToTheDraft) {
  ClusterOptions options = Options();
  options.draft_proxy = SlowNetwork();
  InProcessCluster cluster(std::move(options));
  const StageViews views = Watch(cluster);
  ExpectSlow(views, "network");
  for (const Call& call : Drafts(views)) EXPECT_GE(call.network(), 2 * kSlower);
}

TEST_F(SlowStage, ATargetThatTakesLonger) {
  ClusterOptions options = Options();
  options.target_model = std::make_unique<SlowerModel>(std::move(options.target_model));
  InProcessCluster cluster(std::move(options));
  const StageViews views = Watch(cluster);
  ExpectSlow(views, "device");
  for (const Call& call : Verifies(views)) {
    EXPECT_GE(call.there->Int(telemetry::kComputed), absl::ToInt64Microseconds(kSlower));
  }
}

}  // namespace
}  // namespace tandem::testing
