#include "orchestrator/draft/draft_client.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "orchestrator/draft/draft_stream.h"

namespace tandem::orchestrator {
class DraftClient::Session final : public DraftSession {
 public:
  Session(std::shared_ptr<DraftClient> client, std::shared_ptr<DraftEvents> events)
      : client_(std::move(client)), events_(std::move(events)) {}
  ~Session() override { Close(); }

  void Open(const DraftOpen& open) override {
    Close();
    client_->Count(1);
    std::tie(stream_, sequence_) = client_->Open(events_, open);
  }

  void Advance(const DraftAdvance& advance) override {
    if (stream_ != nullptr) stream_->Advance(sequence_, advance);
  }

  void Submitted(base::BlockId block_id, uint32_t nodes) override {
    if (stream_ != nullptr) stream_->Submitted(sequence_, block_id, nodes);
  }

  void Close() override {
    if (stream_ == nullptr) return;
    std::exchange(stream_, nullptr)->Remove(sequence_);
    client_->Count(-1);
  }

  NextDraft GiveUp(DraftLoss loss, absl::Duration /*at_least*/) override {
    if (stream_ != nullptr && loss == DraftLoss::kLost) stream_->GiveUp(sequence_);
    Close();
    return loss == DraftLoss::kRefused ? NextDraft::kNever : NextDraft::kLater;
  }

 private:
  const std::shared_ptr<DraftClient> client_;
  const std::shared_ptr<DraftEvents> events_;
  std::shared_ptr<Stream> stream_;  // null: nothing is open
  base::SequenceId sequence_{};     // on it
};

DraftClient::DraftClient(PeerAddress peer, internal::v1::Hello hello,
                         OpenStream<internal::v1::DraftRequest, internal::v1::DraftReply> open,
                         CheckWelcome check)
    : peer_(std::move(peer)),
      hello_(std::move(hello)),
      open_(std::move(open)),
      check_(std::move(check)) {}

DraftClient::~DraftClient() {
  if (stream_ != nullptr) stream_->End("the draft is used no more");
}

std::unique_ptr<DraftSession> DraftClient::NewSession(std::shared_ptr<DraftEvents> events) {
  return std::make_unique<Session>(shared_from_this(), std::move(events));
}

std::pair<std::shared_ptr<DraftClient::Stream>, base::SequenceId> DraftClient::Open(
    std::shared_ptr<DraftEvents> events, const DraftOpen& open) {
  while (true) {
    std::shared_ptr<Stream> stream;
    std::optional<internal::v1::Hello> hello;  // of a new stream
    {
      concurrency::MutexLock lock(mutex_);
      if (stream_ == nullptr) {
        stream_ = std::make_shared<Stream>(shared_from_this());
        hello = hello_;
        hello->set_incarnation(hello_.incarnation() + ++streams_);
      }
      stream = stream_;
    }
    const std::optional<base::SequenceId> sequence = stream->Open(events, open);
    if (hello.has_value()) stream->Begin(open_, *hello);
    if (sequence.has_value()) return {std::move(stream), *sequence};
    StreamOver(*stream);
  }
}

void DraftClient::StreamOver(const Stream& stream) {
  std::shared_ptr<Stream> released;  // after the lock
  concurrency::MutexLock lock(mutex_);
  if (stream_.get() == &stream) released = std::move(stream_);
}

std::string DraftClient::model_id() const {
  concurrency::MutexLock lock(mutex_);
  return welcome_.has_value() ? welcome_->model_id() : std::string();
}

const v1::Welcome* DraftClient::Offer() const {
  return problem_.empty() && welcome_.has_value() ? &*welcome_ : nullptr;
}

std::vector<std::string> DraftClient::drafters() const {
  concurrency::MutexLock lock(mutex_);
  const v1::Welcome* offer = Offer();
  if (offer == nullptr) return {};
  return {offer->drafters().begin(), offer->drafters().end()};
}

std::vector<std::string> DraftClient::tree_drafters() const {
  return Among(&v1::Welcome::tree_drafters, true);
}

std::vector<std::string> DraftClient::sampling_drafters() const {
  return Among(&v1::Welcome::one_hot_drafters, false);
}

std::vector<std::string> DraftClient::Among(DrafterList list, bool listed) const {
  concurrency::MutexLock lock(mutex_);
  std::vector<std::string> names;
  const v1::Welcome* offer = Offer();
  if (offer == nullptr) return names;
  const auto& some = (offer->*list)();
  for (const std::string& name : offer->drafters()) {
    if ((std::find(some.begin(), some.end(), name) != some.end()) == listed) names.push_back(name);
  }
  if (!names.empty() && names[0] == offer->drafters(0)) names.emplace_back();
  return names;
}

bool DraftClient::MayOffer(const std::string& drafter) const {
  if (drafter.empty()) return true;
  const std::vector<std::string> offered = drafters();
  return offered.empty() || std::find(offered.begin(), offered.end(), drafter) != offered.end();
}

DraftClient::Status DraftClient::status() const {
  concurrency::MutexLock lock(mutex_);
  const uint32_t queued_rows = sequences_ > 0 && load_.has_value() ? load_->queued_rows() : 0;
  return {answers_, sequences_, queued_rows, problem_.empty(), misfit_};
}

v1::Peer DraftClient::Describe() const {
  concurrency::MutexLock lock(mutex_);
  v1::Peer peer;
  peer.set_role(v1::Peer::ROLE_DRAFT);
  peer.set_address(peer_.address);
  peer.set_name(peer_.name);
  peer.set_ready(Offer() != nullptr);
  peer.set_problem(!welcome_.has_value() && problem_.empty() ? "it has not answered yet"
                                                             : problem_);
  if (welcome_.has_value()) *peer.mutable_welcome() = *welcome_;
  if (load_.has_value()) *peer.mutable_load() = *load_;
  peer.set_sequences(sequences_);
  return peer;
}

void DraftClient::Failed(DraftLoss loss, const std::string& reason) {
  const bool refused = loss == DraftLoss::kRefused;
  Problem(refused, refused ? "is not used" : "is lost", reason);
}

void DraftClient::Problem(bool refused, absl::string_view what, const std::string& reason) {
  const std::string problem = absl::StrCat("draft ", Called(peer_), " ", what, ": ", reason);
  {
    concurrency::MutexLock lock(mutex_);
    if (problem == problem_) return;
    problem_ = problem;
  }
  TANDEM_LOG(kWarning) << base::LogFields(refused ? "peer_refused" : "peer_lost")
                              .Add("peer", peer_.address)
                              .Add("kind", "draft")
                              .Add("reason", reason);
}

void DraftClient::Greeted(const v1::DescribeReply& reply, const absl::Status& fits) {
  {
    concurrency::MutexLock lock(mutex_);
    misfit_ = !fits.ok();
    if (sequences_ == 0) load_ = reply.load();
  }
  if (fits.ok()) return Fits(reply.welcome());
  Failed(DraftLoss::kRefused, std::string(fits.message()));
}

void DraftClient::Unanswered(const std::string& reason) {
  if (sequences() == 0) Problem(/*refused=*/false, "does not answer", reason);
}

void DraftClient::Fits(const v1::Welcome& welcome) {
  {
    concurrency::MutexLock lock(mutex_);
    const bool was_up = welcome_.has_value() && problem_.empty();
    welcome_ = welcome;
    problem_.clear();
    misfit_ = false;
    if (was_up) return;
  }
  TANDEM_LOG(kInfo) << base::LogFields("peer_up")
                           .Add("peer", peer_.address)
                           .Add("kind", "draft")
                           .Add("model_id", welcome.model_id())
                           .Add("numerics_id", welcome.numerics_id());
}

void DraftClient::Reported(const internal::v1::Block& first, uint64_t answers) {
  concurrency::MutexLock lock(mutex_);
  if (first.has_load()) load_ = first.load();
  answers_ += answers;
}

void DraftClient::Count(int more) {
  concurrency::MutexLock lock(mutex_);
  sequences_ += static_cast<uint32_t>(more);
}

}  // namespace tandem::orchestrator
