#include "tests/orchestrator/pool_harness.h"

#include <utility>

#include "common/config/check.h"
#include "common/rpc/logprobs.h"
#include "common/rpc/sequence_options.h"
#include "gtest/gtest.h"
#include "orchestrator/verify/verify_wire.h"

namespace tandem::orchestrator {
namespace {

testing::TableModelOptions ModelOptions() {
  testing::TableModelOptions model;
  model.vocabulary_size = HarnessOptions().vocabulary_size;
  model.peakedness = 1.5;
  model.context_length = 4096;
  return model;
}

VerifyStep StepFromWire(const v1::Step& wire) {
  VerifyStep step;
  step.round = wire.round();
  if (wire.has_options()) {
    const auto checked = rpc::CheckSequenceOptions(wire.options(), ModelOptions().context_length,
                                                   ModelOptions().vocabulary_size);
    const auto* settings = std::get_if<rpc::SequenceSettings>(&checked);
    TANDEM_CHECK(settings != nullptr) << std::get<rpc::Refusal>(checked).problem.DebugString();
    step.setup = SequenceSetup{.sampling = settings->sampling,
                               .rule = settings->rule,
                               .leniency = settings->leniency,
                               .seed = settings->seed,
                               .sample_index = settings->sample_index,
                               .prompt_tokens = settings->prompt_tokens,
                               .most_tokens = settings->most_tokens,
                               .priority = settings->priority,
                               .logprobs = settings->logprobs};
  }
  step.prefix.keep = wire.prefix().keep();
  step.prefix.tokens.assign(wire.prefix().tokens().begin(), wire.prefix().tokens().end());
  step.prefix.hash = wire.prefix().hash();
  step.more = wire.more();
  step.prompt_logprobs = wire.prompt_logprobs();
  step.block.tokens.assign(wire.candidates().begin(), wire.candidates().end());
  return step;
}

void ToWire(const VerifyReply& reply, v1::Verdict& verdict) {
  for (size_t i = 0; i < reply.entries.size(); ++i) {
    const acceptance::Entry& entry = reply.entries[i];
    v1::Entry& wire = *verdict.add_entries();
    wire.set_accept_probability(entry.accept_probability);
    if (entry.next_token.has_value()) wire.set_next_token(*entry.next_token);
    if (!reply.logprobs.empty()) *wire.mutable_logprobs() = rpc::ToWire(reply.logprobs[i]);
  }
  for (const sampling::NodeLogprobs& node : reply.prompt_logprobs)
    *verdict.add_prompt_logprobs() = rpc::ToWire(node);
}

}  // namespace

// ---- a target ----

class WireTarget::Stream final : public rpc::Sink<v1::TargetRequest>,
                                 public std::enable_shared_from_this<Stream> {
 public:
  Stream(WireTarget& target, std::unique_ptr<rpc::StreamHandler<v1::TargetReply>> handler)
      : handler_(std::move(handler)), target_(target) {}

  bool Send(v1::TargetRequest message) override {
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
    target_.held_.clear();
    target_.queue_.push_back(
        [handler = std::shared_ptr<rpc::StreamHandler<v1::TargetReply>>(std::move(handler_)),
         status] { handler->OnDone(status); });
  }
  size_t queued() const override { return 0; }
  void Receive(v1::TargetReply reply) {
    if (handler_ != nullptr) handler_->OnMessage(std::move(reply));
  }
  bool open() const { return handler_ != nullptr; }

 private:
  std::unique_ptr<rpc::StreamHandler<v1::TargetReply>> handler_;
  WireTarget& target_;
};

OpenStream<v1::TargetRequest, v1::TargetReply> WireTarget::Opener() {
  return [this](std::unique_ptr<rpc::StreamHandler<v1::TargetReply>> handler) {
    auto stream = std::make_shared<Stream>(*this, std::move(handler));
    if (!reachable) {
      stream->Close(absl::UnavailableError("connection refused"));
      return stream;
    }
    ++streams;
    held_.clear();
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

v1::Load WireTarget::CurrentLoad() const {
  v1::Load load;
  load.set_free_slots(free_slots());
  load.set_queued_rows(queued_rows);
  return load;
}

void WireTarget::Report() {
  v1::TargetReply reply;
  *reply.mutable_verdicts()->mutable_load() = CurrentLoad();
  stream_->Receive(std::move(reply));
}

void WireTarget::OnRequest(const std::shared_ptr<Stream>& stream,
                           const v1::TargetRequest& request) {
  if (request.has_hello()) {
    v1::TargetReply reply;
    *reply.mutable_welcome() = welcome;
    return Reply(stream, std::move(reply));
  }
  for (uint64_t sequence : request.batch().close()) held_.erase(sequence);
  for (const v1::Step& step : request.batch().steps()) OnStep(stream, step);
}

void WireTarget::OnStep(const std::shared_ptr<Stream>& stream, const v1::Step& step) {
  ++steps;
  v1::Verdict verdict;
  verdict.set_sequence(step.sequence());
  verdict.set_round(step.round());
  if (!held_.contains(step.sequence()) && free_slots() == 0) {
    ++overruled;
    verdict.set_status(v1::STATUS_NO_SLOT);
    verdict.mutable_problem()->set_retry_after_us(absl::ToInt64Microseconds(retry_after));
  } else {
    if (!held_.contains(step.sequence())) ++opened;
    TableSequence& sequence = held_.try_emplace(step.sequence(), model_).first->second;
    const VerifyReply reply = sequence.Answer(StepFromWire(step));
    EXPECT_EQ(reply.status, VerifyReply::Status::kOk);
    verdict.set_status(v1::STATUS_OK);
    ToWire(reply, verdict);
  }
  if (on_step && on_step(step, verdict) == Do::kDrop) return;
  if (verdict.status() != v1::STATUS_OK) held_.erase(step.sequence());
  v1::TargetReply reply;
  *reply.mutable_verdicts()->add_verdicts() = std::move(verdict);
  if (reports) *reply.mutable_verdicts()->mutable_load() = CurrentLoad();
  Reply(stream, std::move(reply));
}

void WireTarget::Reply(const std::shared_ptr<Stream>& stream, v1::TargetReply reply) {
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

// ---- the harness ----

// The request's strand: events wait in the harness's queue.
class PoolHarness::Request::Events final : public VerifyEvents {
 public:
  Events(std::deque<Event>& queue, Request* request) : queue_(queue), request_(request) {}

  void OnVerifyReady() override {
    queue_.push_back([this] {
      if (request_->loop != nullptr) request_->loop->OnVerifyReady();
    });
  }
  void OnVerifyLost(uint64_t incarnation, std::string reason) override {
    queue_.push_back([=, this] {
      if (request_->loop != nullptr) request_->loop->OnVerifyLost(incarnation, reason);
    });
  }
  void OnVerdict(uint64_t incarnation, VerifyReply reply) override {
    queue_.push_back([=, this] {
      if (request_->loop != nullptr) request_->loop->OnVerdict(incarnation, reply);
    });
  }

 private:
  std::deque<Event>& queue_;
  Request* const request_;
};

PoolHarness::PoolHarness(int targets, LoopOptions loop) : loop_(loop), model_(ModelOptions()) {
  for (int i = 0; i < targets; ++i) {
    auto target = std::make_unique<WireTarget>(clock, model_, queue);
    target->welcome.set_model_id("model");
    target->welcome.set_numerics_id("numerics");
    target->welcome.set_vocabulary_size(model_.info().vocabulary_size);
    target->welcome.mutable_limits()->set_most_candidates(16);
    VerifyClientOptions options;
    options.target_name = std::string(1, static_cast<char>('a' + i));
    options.backoff_least = loop_.backoff_least;
    options.backoff_most = loop_.backoff_most;
    clients_.push_back(std::make_shared<VerifyClient>(
        options, target->Opener(),
        [](const v1::Welcome&, std::function<void(absl::Status)> done) { done(absl::OkStatus()); },
        timers, clock));
    targets_.push_back(std::move(target));
  }
  pool_ = std::make_shared<TargetPool>(clients_, timers, clock, /*seed=*/5);
  pool_->Start();
  DeliverAll();
}

PoolHarness::~PoolHarness() {
  for (auto& request : requests_) {
    if (!request->ending.has_value()) request->Cancel();
  }
  for (auto& request : requests_) {
    request->loop.reset();
    request->session.reset();
  }
  for (auto& target : targets_) target->Kill();
  DeliverAll();
  pool_->Stop();
}

PoolHarness::Request& PoolHarness::Add(GenerationRequest wanted) {
  Request& request = *requests_.emplace_back(std::make_unique<Request>());
  request.request = std::move(wanted);
  request.stream =
      std::make_unique<TokenStream>(request.request, std::make_unique<LetterDetokenizer>(),
                                    request.reader, loop_.most_undelivered_tokens);
  request.events = std::make_shared<Request::Events>(queue, &request);
  request.timers = std::make_unique<StrandTimers>(
      timers, clock, [this](std::function<void()> task) { queue.push_back(std::move(task)); },
      [&request](LoopTimer timer) {
        if (request.loop != nullptr) request.loop->OnTimer(timer);
      });
  request.session = pool_->NewSession(request.events, {.priority = request.request.priority});
  LoopParts parts{nullptr,
                  request.session.get(),
                  request.stream.get(),
                  request.timers.get(),
                  &clock,
                  &observer_,
                  {}};
  request.loop = std::make_unique<SpeculationLoop>(
      request.request, loop_, parts, clock.Now(),
      [&request](Ending ending) { request.ending = std::move(ending); });
  request.loop->Start();
  return request;
}

bool PoolHarness::DeliverOne() {
  if (queue.empty()) return false;
  Event event = std::move(queue.front());
  queue.pop_front();
  event();
  for (auto& request : requests_) {
    while (request->reader.waiting > 0) {
      --request->reader.waiting;
      request->stream->OnWritten();
    }
  }
  return true;
}

void PoolHarness::DeliverAll() {
  while (DeliverOne()) {
  }
}

void PoolHarness::Run(const std::function<bool()>& until) {
  for (int i = 0; i < 1'000'000; ++i) {
    bool over = !until;
    for (auto& request : requests_) over = over && request->ending.has_value();
    if (over || (until && until())) return;
    timers.Advance(absl::ZeroDuration());  // what fell due while an event moved the clock
    if (DeliverOne()) continue;
    if (!timers.AdvanceToNext()) break;
  }
  ADD_FAILURE() << "nothing happens any more";
}

std::vector<uint32_t> PlainIds(const GenerationRequest& request) {
  HarnessOptions options;
  options.with_draft = false;
  return LoopHarness(request, options).PlainIds();
}

}  // namespace tandem::orchestrator
