#include "bench/serving/stub_peers.h"

#include <grpcpp/grpcpp.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/concurrency/mutex.h"
#include "common/messages/handshake.h"
#include "common/transport/server_host.h"
#include "common/transport/server_stream.h"
#include "tandem/internal/v1/draft.grpc.pb.h"
#include "tandem/internal/v1/target.grpc.pb.h"

namespace tandem::testing {
namespace {

constexpr uint32_t kToken = 263;  // all that they ever say
constexpr uint32_t kMaxDraftTokens = 16;

using ToTarget = transport::Sink<internal::v1::TargetReply>;
using ToDraft = transport::Sink<internal::v1::DraftReply>;

// Answers to prompts, until all of them are there. Thread-safe.
class Gate {
 public:
  void Await(int answers) {
    concurrency::MutexLock lock(mutex_);
    missing_ = answers;
  }

  // What may be sent now: nothing, or all that was kept.
  std::vector<internal::v1::Verdict> Pass(internal::v1::Verdict verdict) {
    concurrency::MutexLock lock(mutex_);
    kept_.push_back(std::move(verdict));
    if (--missing_ > 0) return {};
    return std::exchange(kept_, {});
  }

 private:
  concurrency::Mutex mutex_;
  int missing_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::vector<internal::v1::Verdict> kept_ TANDEM_GUARDED_BY(mutex_);
};

internal::v1::Verdict Answer(const internal::v1::Step& step) {
  internal::v1::Verdict verdict;
  verdict.set_sequence(step.sequence());
  verdict.set_round(step.round());
  verdict.set_status(internal::v1::STATUS_OK);
  verdict.set_pass_id(1);
  for (int i = 0; !step.more() && i <= step.candidates_size(); ++i) {
    internal::v1::Entry& entry = *verdict.add_entries();
    entry.set_accept_probability(1);
    entry.set_next_token(kToken);
  }
  return verdict;
}

// Passes that take long, so that no watchdog is afraid for a prompt.
void AddCost(uint32_t rows, uint32_t microseconds, v1::Load& load) {
  v1::CostPoint& point = *load.add_cost_curve();
  point.set_rows(rows);
  point.set_microseconds(microseconds);
}

class TargetSession final : public transport::StreamHandler<internal::v1::TargetRequest> {
 public:
  TargetSession(std::shared_ptr<ToTarget> client, const v1::Welcome& welcome, Gate& gate)
      : client_(std::move(client)), gate_(gate) {
    internal::v1::TargetReply reply;
    *reply.mutable_welcome() = welcome;
    client_->Send(std::move(reply));
  }

  void OnMessage(internal::v1::TargetRequest request) override {
    internal::v1::TargetReply reply;
    internal::v1::Verdicts& verdicts = *reply.mutable_verdicts();
    for (const internal::v1::Step& step : request.batch().steps()) {
      if (step.prefix().tokens_size() <= static_cast<int>(StubPeers::kShortPrompt)) {
        *verdicts.add_verdicts() = Answer(step);
        continue;
      }
      for (internal::v1::Verdict& verdict : gate_.Pass(Answer(step))) {
        *verdicts.add_verdicts() = std::move(verdict);
      }
    }
    if (verdicts.verdicts().empty()) return;
    v1::Load& load = *verdicts.mutable_load();
    load.set_free_slots(1 << 20);
    AddCost(1, 10'000, load);
    AddCost(1 << 17, 10'000'000, load);
    client_->Send(std::move(reply));
  }
  void OnHalfClose() override { client_->Close(absl::OkStatus()); }
  void OnDone(absl::Status /*status*/) override {}

 private:
  const std::shared_ptr<ToTarget> client_;
  Gate& gate_;
};

class DraftSession final : public transport::StreamHandler<internal::v1::DraftRequest> {
 public:
  DraftSession(std::shared_ptr<ToDraft> client, const v1::Welcome& welcome)
      : client_(std::move(client)) {
    internal::v1::DraftReply reply;
    *reply.mutable_welcome() = welcome;
    client_->Send(std::move(reply));
  }

  void OnMessage(internal::v1::DraftRequest request) override {
    if (!request.has_advance()) return;
    internal::v1::DraftReply reply;
    internal::v1::Block& block = *reply.mutable_block();
    block.set_sequence(request.advance().sequence());
    block.set_round(request.advance().round());
    block.set_status(internal::v1::STATUS_OK);
    block.mutable_block_id()->set_value(request.advance().round());
    block.set_final(true);
    for (uint32_t i = 0; i < request.advance().shape().max_draft_tokens(); ++i) {
      block.add_tokens(kToken);
    }
    client_->Send(std::move(reply));
  }
  void OnHalfClose() override { client_->Close(absl::OkStatus()); }
  void OnDone(absl::Status /*status*/) override {}

 private:
  const std::shared_ptr<ToDraft> client_;
};

class TargetService final : public internal::v1::Target::CallbackService {
 public:
  explicit TargetService(v1::Welcome welcome) : welcome_(std::move(welcome)) {}

  Gate& gate() { return gate_; }

  grpc::ServerBidiReactor<internal::v1::TargetRequest, internal::v1::TargetReply>* Verify(
      grpc::CallbackServerContext* call) override {
    return transport::ServeBidi<internal::v1::TargetRequest, internal::v1::TargetReply>(
        call, {}, [this](std::shared_ptr<ToTarget> client) {
          return std::make_unique<TargetSession>(std::move(client), welcome_, gate_);
        });
  }

 private:
  const v1::Welcome welcome_;
  Gate gate_;
};

class DraftService final : public internal::v1::Draft::CallbackService {
 public:
  explicit DraftService(v1::Welcome welcome) : welcome_(std::move(welcome)) {}

  grpc::ServerBidiReactor<internal::v1::DraftRequest, internal::v1::DraftReply>* Propose(
      grpc::CallbackServerContext* call) override {
    return transport::ServeBidi<internal::v1::DraftRequest, internal::v1::DraftReply>(
        call, {}, [this](std::shared_ptr<ToDraft> client) {
          return std::make_unique<DraftSession>(std::move(client), welcome_);
        });
  }

 private:
  const v1::Welcome welcome_;
};

v1::Welcome MakeWelcome(const std::string& tokenizer_id, uint32_t vocabulary_size,
                        uint32_t context_length) {
  v1::Welcome welcome;
  welcome.set_protocol_revision(messages::kProtocolRevision);
  welcome.set_instance_id(messages::NewInstanceId());
  welcome.set_tokenizer_id(tokenizer_id);
  welcome.set_model_id("stub");
  welcome.set_numerics_id("stub");
  welcome.set_vocabulary_size(vocabulary_size);
  welcome.add_rules(v1::RULE_GREEDY);
  welcome.mutable_limits()->set_max_message_bytes(messages::kMaxMessageBytes);
  welcome.mutable_limits()->set_max_draft_tokens(kMaxDraftTokens);
  welcome.mutable_limits()->set_max_unanswered(1);
  welcome.mutable_limits()->set_context_length(context_length);
  return welcome;
}

std::unique_ptr<transport::ServerHost> Listen(grpc::Service& service) {
  transport::ServerHostOptions options;
  options.listen_address = "127.0.0.1:0";
  options.services = {&service};
  auto host = transport::ServerHost::Start(std::move(options));
  TANDEM_CHECK_OK(host.status());
  return *std::move(host);
}

}  // namespace

struct StubPeers::Impl {
  explicit Impl(const v1::Welcome& welcome) : target(welcome), draft(welcome) {}

  TargetService target;
  DraftService draft;
  const std::unique_ptr<transport::ServerHost> target_host = Listen(target);
  const std::unique_ptr<transport::ServerHost> draft_host = Listen(draft);
};

StubPeers::StubPeers(const std::string& tokenizer_id, uint32_t vocabulary_size,
                     uint32_t context_length)
    : impl_(std::make_unique<Impl>(MakeWelcome(tokenizer_id, vocabulary_size, context_length))) {}

StubPeers::~StubPeers() = default;

void StubPeers::AnswerTogether(int sequences) { impl_->target.gate().Await(sequences); }

std::string StubPeers::target_address() const {
  return absl::StrCat("127.0.0.1:", impl_->target_host->port());
}

std::string StubPeers::draft_address() const {
  return absl::StrCat("127.0.0.1:", impl_->draft_host->port());
}

}  // namespace tandem::testing
