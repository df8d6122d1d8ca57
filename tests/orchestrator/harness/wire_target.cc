#include "tests/orchestrator/harness/wire_target.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/messages/logprobs.h"
#include "common/speculation/sequence_options.h"
#include "gtest/gtest.h"
#include "orchestrator/verify/verify_wire.h"

namespace tandem::orchestrator {
namespace {

VerifyStep StepFromWire(const internal::v1::Step& wire) {
  VerifyStep step;
  step.round = wire.round();
  if (wire.has_options()) {
    const auto checked =
        speculation::CheckSequenceOptions(wire.options(), WireTarget::ModelOptions().context_length,
                                          WireTarget::ModelOptions().vocabulary_size);
    const auto* settings = std::get_if<speculation::SequenceSettings>(&checked);
    TANDEM_CHECK(settings != nullptr) << std::get<messages::Refusal>(checked).problem.DebugString();
    step.setup = *settings;
  }
  step.prefix = speculation::FromWire(wire.prefix());
  step.more = wire.more();
  step.prompt_logprobs = wire.prompt_logprobs();
  step.block.tokens.assign(wire.candidates().begin(), wire.candidates().end());
  return step;
}

void ToWire(const VerifyReply& reply, internal::v1::Verdict& verdict) {
  for (size_t i = 0; i < reply.entries.size(); ++i) {
    const acceptance::Entry& entry = reply.entries[i];
    internal::v1::Entry& wire = *verdict.add_entries();
    wire.set_accept_probability(entry.accept_probability);
    if (entry.next_token.has_value()) wire.set_next_token(*entry.next_token);
    if (!reply.logprobs.empty()) *wire.mutable_logprobs() = messages::ToWire(reply.logprobs[i]);
  }
  for (const sampling::NodeLogprobs& node : reply.prompt_logprobs)
    *verdict.add_prompt_logprobs() = messages::ToWire(node);
}

}  // namespace

testing::TableModelOptions WireTarget::ModelOptions() {
  testing::TableModelOptions model;
  model.vocabulary_size = HarnessOptions().vocabulary_size;
  model.peakedness = 1.5;
  model.context_length = 4096;
  return model;
}

class WireTarget::Stream final : public transport::Sink<internal::v1::TargetRequest>,
                                 public std::enable_shared_from_this<Stream> {
 public:
  Stream(WireTarget& target,
         std::unique_ptr<transport::StreamHandler<internal::v1::TargetReply>> handler)
      : handler_(std::move(handler)), target_(target) {}

  bool Send(internal::v1::TargetRequest message) override {
    if (handler_ == nullptr) return false;
    target_.queue_.push_back([self = shared_from_this(), message = std::move(message)] {
      if (self->handler_ == nullptr) return;
      self->target_.OnRequest(self, message);
      if (self->handler_ != nullptr) self->handler_->OnWritten(0);
    });
    return true;
  }
  void Close(absl::Status status) override {
    if (handler_ == nullptr) return;
    target_.ForgetAll();
    target_.queue_.push_back(
        [handler = std::shared_ptr<transport::StreamHandler<internal::v1::TargetReply>>(
             std::move(handler_)),
         status] { handler->OnDone(status); });
  }
  size_t queued() const override { return 0; }
  void Receive(internal::v1::TargetReply reply) {
    if (handler_ != nullptr) handler_->OnMessage(std::move(reply));
  }
  bool open() const { return handler_ != nullptr; }

 private:
  std::unique_ptr<transport::StreamHandler<internal::v1::TargetReply>> handler_;
  WireTarget& target_;
};

OpenStream<internal::v1::TargetRequest, internal::v1::TargetReply> WireTarget::Opener() {
  return [this](std::unique_ptr<transport::StreamHandler<internal::v1::TargetReply>> handler) {
    auto stream = std::make_shared<Stream>(*this, std::move(handler));
    if (!reachable) {
      stream->Close(absl::UnavailableError("connection refused"));
      return stream;
    }
    ++streams;
    ForgetAll();
    stream_ = stream;
    return stream;
  };
}

void WireTarget::Cut() {
  if (stream_ != nullptr) stream_->Close(absl::UnavailableError("cut"));
}

void WireTarget::Kill() {
  reachable = false;
  Cut();
}

uint32_t WireTarget::free_slots() const {
  return slots - std::min(slots, static_cast<uint32_t>(held_.size()));
}

int64_t WireTarget::free_room() const {
  int64_t free = room;
  for (const auto& [sequence, tokens] : reserved_) free -= tokens;
  return free;
}

void WireTarget::Forget(uint64_t sequence) {
  held_.erase(sequence);
  reserved_.erase(sequence);
}

void WireTarget::ForgetAll() {
  held_.clear();
  reserved_.clear();
}

bool WireTarget::open() const { return stream_ != nullptr && stream_->open(); }

v1::Load WireTarget::CurrentLoad() const {
  v1::Load load;
  load.set_free_slots(free_slots());
  if (room > 0) load.set_free_tokens(static_cast<uint64_t>(free_room()));
  load.set_queued_rows(queued_rows);
  for (const auto& [rows, microseconds] : cost_curve) {
    v1::CostPoint& point = *load.add_cost_curve();
    point.set_rows(rows);
    point.set_microseconds(microseconds);
  }
  return load;
}

void WireTarget::Report() {
  internal::v1::TargetReply reply;
  *reply.mutable_verdicts()->mutable_load() = CurrentLoad();
  stream_->Receive(std::move(reply));
}

void WireTarget::OnRequest(const std::shared_ptr<Stream>& stream,
                           const internal::v1::TargetRequest& request) {
  if (request.has_hello()) {
    internal::v1::TargetReply reply;
    *reply.mutable_welcome() = welcome;
    return Reply(stream, std::move(reply));
  }
  for (uint64_t sequence : request.batch().close()) Forget(sequence);
  for (const internal::v1::Step& step : request.batch().steps()) OnStep(stream, step);
}

void WireTarget::OnStep(const std::shared_ptr<Stream>& stream, const internal::v1::Step& step) {
  ++steps;
  internal::v1::Verdict verdict;
  verdict.set_sequence(step.sequence());
  verdict.set_round(step.round());
  const bool fresh = !held_.contains(step.sequence());
  const int64_t tokens = int64_t{step.options().max_length()} + welcome.limits().max_draft_tokens();
  if (fresh && (free_slots() == 0 || (room > 0 && tokens > free_room()))) {
    ++overruled;
    verdict.set_status(internal::v1::STATUS_NO_SLOT);
    verdict.mutable_problem()->set_retry_after_us(absl::ToInt64Microseconds(retry_after));
  } else {
    if (fresh) {
      ++opened;
      reserved_[step.sequence()] = tokens;
    }
    TableSequence& sequence = held_.try_emplace(step.sequence(), model_).first->second;
    const VerifyReply reply = sequence.Answer(StepFromWire(step));
    EXPECT_EQ(reply.status, VerifyReply::Status::kOk);
    verdict.set_status(internal::v1::STATUS_OK);
    ToWire(reply, verdict);
  }
  if (on_step && on_step(step, verdict) == Do::kDrop) return;
  if (verdict.status() != internal::v1::STATUS_OK) Forget(step.sequence());
  internal::v1::TargetReply reply;
  *reply.mutable_verdicts()->add_verdicts() = std::move(verdict);
  if (reports) *reply.mutable_verdicts()->mutable_load() = CurrentLoad();
  Reply(stream, std::move(reply));
}

void WireTarget::Reply(const std::shared_ptr<Stream>& stream, internal::v1::TargetReply reply) {
  queue_.push_back([this, stream, reply = std::move(reply)] {
    if (reply.has_verdicts()) clock_.Advance(step_time);
    stream->Receive(reply);
  });
}

std::vector<uint64_t> WireTarget::sequences() const {
  std::vector<uint64_t> ids;
  for (const auto& [id, sequence] : held_) ids.push_back(id);
  return ids;
}

}  // namespace tandem::orchestrator
