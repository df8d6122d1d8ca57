#include "orchestrator/draft/draft_stream.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/messages/handshake.h"
#include "common/messages/limits.h"
#include "orchestrator/draft/draft_wire.h"
#include "orchestrator/peers/stream_end.h"

namespace tandem::orchestrator {
namespace {

bool Offers(const v1::Welcome& welcome, absl::string_view feature) {
  return std::find(welcome.features().begin(), welcome.features().end(), feature) !=
         welcome.features().end();
}

// Whether this drafter is in a list of those that can do something; empty: the default one.
bool IsAmong(const google::protobuf::RepeatedPtrField<std::string>& able,
             const v1::Welcome& welcome, const std::string& drafter) {
  const std::string& name =
      drafter.empty() && welcome.drafters_size() > 0 ? welcome.drafters(0) : drafter;
  return std::find(able.begin(), able.end(), name) != able.end();
}

// Draft tokens of the trees that it makes there. 0: chains alone.
uint32_t ServedNodes(const v1::Welcome& welcome, const std::string& drafter) {
  return IsAmong(welcome.tree_drafters(), welcome, drafter) ? welcome.limits().max_nodes() : 0;
}

// Whether only a draft that works answers so.
bool Works(const internal::v1::Block& block) {
  return block.status() == internal::v1::STATUS_OK ||
         block.status() == internal::v1::STATUS_NEED_PREFIX ||
         block.status() == internal::v1::STATUS_STALE ||
         block.status() == internal::v1::STATUS_EXPIRED;
}

constexpr size_t kMaxBytes = messages::kMaxMessageBytes - 4096;  // of what is sent as one message
// Requests that wait. A draft that reads nothing is silent long before, but for requests that do
// not wait for it.
constexpr size_t kMaxWaiting = 65536;

}  // namespace

class DraftClient::Stream::Handler final
    : public transport::StreamHandler<internal::v1::DraftReply> {
 public:
  explicit Handler(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}

  void OnMessage(internal::v1::DraftReply reply) override { stream_->OnReply(reply); }
  void OnWritten(size_t /*queued*/) override { stream_->OnWritten(); }
  void OnDone(absl::Status status) override { stream_->OnDone(status); }

 private:
  const std::shared_ptr<Stream> stream_;
};

// ---- its life ----

void DraftClient::Stream::Begin(
    const OpenStream<internal::v1::DraftRequest, internal::v1::DraftReply>& open,
    const internal::v1::Hello& hello) {
  const std::shared_ptr<Sink> sink = open(std::make_unique<Handler>(shared_from_this()));
  bool over;
  {
    concurrency::MutexLock lock(mutex_);
    over = state_ == State::kOver;
    if (!over) sink_ = sink;
  }
  if (over) return sink->Close(absl::CancelledError("nobody needs the stream"));
  internal::v1::DraftRequest request;
  *request.mutable_hello() = hello;
  sink->Send(std::move(request));
}

void DraftClient::Stream::End(const std::string& reason) {
  std::shared_ptr<Sink> sink;
  {
    concurrency::MutexLock lock(mutex_);
    state_ = State::kOver;
    batches_ = {};
    sink = std::move(sink_);
  }
  if (sink != nullptr) sink->Close(absl::CancelledError(reason));
}

void DraftClient::Stream::OnDone(const absl::Status& status) {
  Lost(status.code() == absl::StatusCode::kFailedPrecondition ? DraftLoss::kRefused
                                                              : DraftLoss::kLost,
       StreamEndReason(status, "tandem.internal.v1.Draft"));
}

void DraftClient::Stream::Lost(DraftLoss loss, const std::string& reason) {
  Told told;
  bool in_use;
  {
    concurrency::MutexLock lock(mutex_);
    if (state_ == State::kOver) return;
    in_use = state_ != State::kSilent;
    state_ = State::kOver;
    for (auto& [number, sequence] : sequences_) {
      if (sequence.events == nullptr) continue;
      told.emplace_back(std::move(sequence.events), sequence.attempt);
    }
  }
  End(reason);
  if (const auto client = client_.lock(); client != nullptr && in_use) {
    client->StreamOver(*this);
    client->Failed(loss, reason);
  }
  for (const auto& [events, attempt] : told) events->OnDraftLost(attempt, loss, reason);
}

// ---- its sequences ----

std::optional<base::SequenceId> DraftClient::Stream::Open(std::shared_ptr<DraftEvents> events,
                                                          const DraftOpen& open) {
  base::SequenceId number;
  Told refused;
  {
    concurrency::MutexLock lock(mutex_);
    if (state_ != State::kGreeting && state_ != State::kUp) return std::nullopt;
    number = base::Advance(last_sequence_);
    Sequence& sequence = sequences_[number];
    sequence.attempt = open.attempt;
    sequence.events = std::move(events);
    sequence.open = open;
    sequence.heard = heard_;
    if (welcome_.has_value()) Admit(number, sequence, refused);
  }
  TellRefused(refused);
  Flush();
  return number;
}

void DraftClient::Stream::Admit(base::SequenceId number, Sequence& sequence, Told& refused) {
  DraftOpen& open = *sequence.open;
  const v1::Limits& limits = welcome_->limits();
  // A draft with a shorter context serves as long as the text fits into it.
  if (limits.context_length() > 0) {
    open.settings.max_length = std::min(open.settings.max_length, limits.context_length());
  }
  open.settings.max_nodes = std::min(open.settings.max_nodes, ServedNodes(*welcome_, open.drafter));
  if (open.settings.max_nodes == 0 && open.needs_trees) {  // no fault of the draft
    refused.emplace_back(std::move(sequence.events), sequence.attempt);
    return;
  }
  sequence.limits = {limits.max_draft_tokens(),
                     limits.context_length(),
                     draft_,
                     open.settings.max_nodes,
                     Offers(*welcome_, messages::kFeatureConfidence),
                     IsAmong(welcome_->preparing_drafters(), *welcome_, open.drafter)};
  batches_.Open(number, std::move(open));
  sequence.open.reset();
}

void DraftClient::Stream::TellRefused(const Told& refused) {
  for (const auto& [events, attempt] : refused) {
    events->OnDraftLost(attempt, DraftLoss::kRefused,
                        "it makes no trees with the drafter that was asked for");
  }
}

void DraftClient::Stream::Advance(base::SequenceId sequence, const DraftAdvance& advance) {
  internal::v1::DraftRequest request;
  *request.mutable_advance() = ToWire(sequence, advance);
  {
    concurrency::MutexLock lock(mutex_);
    Sequence& entry = sequences_.at(sequence);
    entry.owed = true;
    entry.heard = heard_;
    entry.prepares = advance.max_outcomes > 0;
  }
  Add(sequence, std::move(request));
}

void DraftClient::Stream::Submitted(base::SequenceId sequence, base::BlockId block_id,
                                    uint32_t nodes) {
  {
    concurrency::MutexLock lock(mutex_);
    if (!sequences_.at(sequence).prepares) return;
  }
  internal::v1::DraftRequest request;
  *request.mutable_submitted() = SubmittedToWire(sequence, block_id, nodes);
  Add(sequence, std::move(request));
}

void DraftClient::Stream::GiveUp(base::SequenceId sequence) {
  {
    concurrency::MutexLock lock(mutex_);
    const Sequence& entry = sequences_.at(sequence);
    if (state_ == State::kOver || !entry.owed || entry.heard != heard_) return;
    state_ = State::kSilent;
  }
  if (const auto client = client_.lock()) client->StreamOver(*this);
}

void DraftClient::Stream::Remove(base::SequenceId sequence) {
  bool last;
  {
    std::shared_ptr<DraftEvents> released;  // after the lock
    concurrency::MutexLock lock(mutex_);
    const auto it = sequences_.find(sequence);
    released = std::move(it->second.events);
    if (Sends() && !it->second.open.has_value()) batches_.Close(sequence);
    sequences_.erase(it);
    last = state_ == State::kSilent && sequences_.empty();
    lock.Unlock();
  }
  if (last) return End("the draft is silent");
  Flush();
}

void DraftClient::Stream::Add(base::SequenceId sequence, internal::v1::DraftRequest request) {
  bool full;
  {
    concurrency::MutexLock lock(mutex_);
    if (!Sends()) return;  // its owner has been told of the end, or is being told
    full = batches_.size() >= kMaxWaiting;
    if (!full) batches_.Add(sequence, std::move(request));
  }
  if (!full) return Flush();
  Lost(DraftLoss::kLost,
       absl::StrCat("it reads too slowly: ", kMaxWaiting, " requests waited for it"));
}

void DraftClient::Stream::Flush() {
  struct Opened {
    std::shared_ptr<DraftEvents> events;
    base::DraftAttempt attempt{};
    DraftLimits limits;
  };
  std::vector<Opened> opened;
  internal::v1::DraftRequest request;
  std::shared_ptr<Sink> sink;
  {
    concurrency::MutexLock lock(mutex_);
    if (!Sends() || !turns_.Take(batches_.size(), shared_from_this())) return;
    std::vector<base::SequenceId> numbers;
    request = batches_.Take(kMaxBytes, numbers);
    for (base::SequenceId number : numbers) {
      Sequence& sequence = sequences_.at(number);
      sequence.owed = false;
      opened.push_back({sequence.events, sequence.attempt, sequence.limits});
    }
    sink = sink_;
  }
  sink->Send(std::move(request));  // false: the stream is over, and OnDone tells
  for (Opened& one : opened) one.events->OnDraftOpened(one.attempt, std::move(one.limits));
}

void DraftClient::Stream::OnWritten() {
  {
    concurrency::MutexLock lock(mutex_);
    turns_.Written();
  }
  Flush();
}

// ---- what the draft says ----

void DraftClient::Stream::OnReply(const internal::v1::DraftReply& reply) {
  switch (reply.kind_case()) {
    case internal::v1::DraftReply::kWelcome:
      return check_(reply.welcome(),
                    [self = shared_from_this(), welcome = reply.welcome()](
                        const absl::Status& fits) { self->OnWelcome(welcome, fits); });
    case internal::v1::DraftReply::kBlock:
      return OnBlocks(reply);
    case internal::v1::DraftReply::KIND_NOT_SET:
      return Lost(DraftLoss::kRefused, "it sent a message of no known kind");
  }
}

void DraftClient::Stream::OnWelcome(const v1::Welcome& welcome, const absl::Status& fits) {
  if (!fits.ok()) return Lost(DraftLoss::kRefused, std::string(fits.message()));
  Told refused;
  {
    concurrency::MutexLock lock(mutex_);
    if (state_ == State::kOver || welcome_.has_value()) return;
    if (state_ == State::kGreeting) state_ = State::kUp;
    welcome_ = welcome;
    ++heard_;
    for (auto& [number, sequence] : sequences_) Admit(number, sequence, refused);
  }
  if (const auto client = client_.lock()) client->Fits(welcome);
  TellRefused(refused);
  Flush();
}

void DraftClient::Stream::OnBlocks(const internal::v1::DraftReply& reply) {
  if (const auto client = client_.lock()) {
    const auto& next = reply.next();
    client->Reported(reply.block(),
                     Works(reply.block()) + std::count_if(next.begin(), next.end(), Works));
  }
  {
    concurrency::MutexLock lock(mutex_);
    ++heard_;
  }
  const Delivery delivery;
  std::vector<const internal::v1::Block*> blocks = {&reply.block()};
  for (const internal::v1::Block& block : reply.next()) blocks.push_back(&block);
  for (size_t i = 0; i < blocks.size();) {
    const internal::v1::Block& first = *blocks[i++];
    const auto [events, attempt] = ReceiverOf(first);
    if (!IsPrepared(first)) {
      if (events != nullptr) events->OnBlock(attempt, FromWire(first));
      continue;
    }
    std::vector<PreparedBlock> prepared = {PreparedFromWire(first)};
    for (; i < blocks.size() && IsPrepared(*blocks[i]); ++i) {
      if (blocks[i]->sequence() != first.sequence()) break;
      prepared.push_back(PreparedFromWire(*blocks[i]));
    }
    if (events != nullptr) events->OnPrepared(attempt, std::move(prepared));
  }
}

std::pair<std::shared_ptr<DraftEvents>, base::DraftAttempt> DraftClient::Stream::ReceiverOf(
    const internal::v1::Block& block) {
  concurrency::MutexLock lock(mutex_);
  const auto it = sequences_.find(base::SequenceId{block.sequence()});
  if (it == sequences_.end() || it->second.open.has_value()) return {};
  if (!IsPrepared(block)) it->second.owed = false;
  return {it->second.events, it->second.attempt};
}

}  // namespace tandem::orchestrator
