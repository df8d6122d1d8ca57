#include "tests/orchestrator/harness/pool_harness.h"

#include <utility>

#include "gtest/gtest.h"

namespace tandem::orchestrator {

// The request's strand: events wait in the harness's queue.
class PoolHarness::Request::Events final : public VerifyEvents {
 public:
  Events(std::deque<Event>& queue, Request* request) : queue_(queue), request_(request) {}

  void OnVerifyReady() override {
    queue_.push_back([this] {
      if (request_->loop != nullptr) request_->loop->OnVerifyReady();
    });
  }
  void OnSlotWanted() override {
    queue_.push_back([this] {
      if (request_->loop != nullptr) request_->loop->OnSlotWanted();
    });
  }
  void OnVerifyLost(base::Incarnation incarnation, std::string reason) override {
    queue_.push_back([=, this] {
      if (request_->loop != nullptr) request_->loop->OnVerifyLost(incarnation, reason);
    });
  }
  void OnVerdict(base::Incarnation incarnation, VerifyReply reply) override {
    queue_.push_back([=, this] {
      if (request_->loop != nullptr) request_->loop->OnVerdict(incarnation, reply);
    });
  }

 private:
  std::deque<Event>& queue_;
  Request* const request_;
};

PoolHarness::PoolHarness(int targets, LoopOptions loop, TargetPoolOptions pool)
    : loop_(loop), model_(WireTarget::ModelOptions()) {
  std::string names;
  for (int i = 0; i < targets; ++i) {
    auto target = std::make_unique<WireTarget>(clock, model_, queue);
    target->welcome.set_model_id("model");
    target->welcome.set_numerics_id("numerics");
    target->welcome.set_vocabulary_size(model_.info().vocabulary_size);
    target->welcome.mutable_limits()->set_max_draft_tokens(16);
    targets_.push_back(std::move(target));
    names += static_cast<char>('a' + i);
  }
  clients_.resize(targets_.size());
  pool_ = std::make_shared<TargetPool>([this](const PeerAddress& peer) { return MakeClient(peer); },
                                       timers, clock, pool);
  SetPeers(names);
  DeliverAll();
}

std::shared_ptr<VerifyClient> PoolHarness::MakeClient(const PeerAddress& peer) {
  const size_t i = peer.address[0] - 'a';
  VerifyClientOptions options;
  options.target = peer;
  options.backoff_min = loop_.backoff_min;
  options.backoff_max = loop_.backoff_max;
  clients_[i] = std::make_shared<VerifyClient>(
      options, targets_[i]->Opener(),
      [](const v1::Welcome&, std::function<void(absl::Status)> done) { done(absl::OkStatus()); },
      timers, clock);
  return clients_[i];
}

void PoolHarness::SetPeers(const std::string& names, std::vector<std::string> problems) {
  PeerList list;
  list.problems = std::move(problems);
  for (char name : names) list.peers.push_back({std::string(1, name), std::string(1, name)});
  pool_->SetPeers(list);
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
                                    request.reader, loop_.max_undelivered_tokens, request.unread);
  request.events = std::make_shared<Request::Events>(queue, &request);
  request.timers = std::make_unique<StrandTimers>(
      timers, clock, [this](std::function<void()> task) { queue.push_back(std::move(task)); },
      [&request](LoopTimer timer) {
        if (request.loop != nullptr) request.loop->OnTimer(timer);
      });
  request.session = pool_->NewSession(request.events, {.priority = request.request.priority,
                                                       .client = request.request.client,
                                                       .length = request.request.max_length()});
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
    while (request->reader.reads && request->reader.waiting > 0) {
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
