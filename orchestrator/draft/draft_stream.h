// A Propose stream to one draft, which all requests of this orchestrator share, from Hello to its
// end.
//
//   state      meaning                                   takes sequences   sends
//   kGreeting  Hello sent; the Welcome is to come        yes               no
//   kUp        in use                                    yes               yes
//   kSilent    given up for new sequences; those that    no                as before
//              are there may have their answers yet
//   kOver      there is no stream any more               no                no
//
// A sequence is one attempt of a request. It is opened once the Welcome fits: a draft that does not
// fit never sees a prompt. When its messages go out is said by peers/write_turns.h.
//
// Whether a draft is silent is found out by each request (draft_link.h). The first one that gives
// it up while the stream has brought nothing since it asked ends the stream for those that come,
// and only for them: others may have asked for less. The stream ends with its last sequence.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/concurrency/mutex.h"
#include "common/transport/stream.h"
#include "orchestrator/draft/draft_batches.h"
#include "orchestrator/draft/draft_client.h"
#include "orchestrator/draft/draft_session.h"
#include "orchestrator/peers/write_turns.h"
#include "tandem/internal/v1/draft.pb.h"

namespace tandem::orchestrator {

// Thread-safe. It calls its client, the sink and events with no lock held.
class DraftClient::Stream final : public SharedWriter, public std::enable_shared_from_this<Stream> {
 public:
  explicit Stream(const std::shared_ptr<DraftClient>& client)
      : client_(client), check_(client->check_), draft_(client->peer_.address) {}

  // Call once. Opens it and greets.
  void Begin(const OpenStream<internal::v1::DraftRequest, internal::v1::DraftReply>& open,
             const internal::v1::Hello& hello);
  // Ends it at once. Its sequences hear nothing.
  void End(const std::string& reason);

  // Begins a sequence; absent: it takes none any more. `events` hear of it, perhaps before the call
  // returns.
  std::optional<base::SequenceId> Open(std::shared_ptr<DraftEvents> events, const DraftOpen& open);
  void Advance(base::SequenceId sequence, const DraftAdvance& advance);
  // Does nothing where the last Advance has nothing prepared: then the draft need not know.
  void Submitted(base::SequenceId sequence, base::BlockId block_id, uint32_t nodes);
  // It was lost, or it owes an answer for too long. Remove follows.
  void GiveUp(base::SequenceId sequence);
  // Frees it here and at the draft. No event comes after it.
  void Remove(base::SequenceId sequence);

 private:
  class Handler;
  enum class State : uint8_t { kGreeting, kUp, kSilent, kOver };
  using Sink = transport::Sink<internal::v1::DraftRequest>;

  struct Sequence {
    base::DraftAttempt attempt{};
    std::shared_ptr<DraftEvents> events;  // null: it is lost
    std::optional<DraftOpen> open;        // until it is admitted
    DraftLimits limits;
    bool owed = true;       // an answer, also to its Open
    bool prepares = false;  // by its last Advance
    uint64_t heard = 0;     // messages of the stream before it was owed one
  };
  // Whom to tell what, once the lock is released.
  using Told = std::vector<std::pair<std::shared_ptr<DraftEvents>, base::DraftAttempt>>;

  // Its Open is to be sent; there is a Welcome. One that the draft does not serve is added to
  // `refused`.
  void Admit(base::SequenceId number, Sequence& sequence, Told& refused) TANDEM_REQUIRES(mutex_);
  void Add(base::SequenceId sequence, internal::v1::DraftRequest request);
  static void TellRefused(const Told& refused);
  void Flush() override;
  void OnReply(const internal::v1::DraftReply& reply);
  void OnWelcome(const v1::Welcome& welcome, const absl::Status& fits);
  void OnBlocks(const internal::v1::DraftReply& reply);
  // Whom a block is for; nobody: it is gone, or answers what was not said.
  std::pair<std::shared_ptr<DraftEvents>, base::DraftAttempt> ReceiverOf(
      const internal::v1::Block& block);
  void OnWritten();
  void OnDone(const absl::Status& status);
  void Lost(DraftLoss loss, const std::string& reason);
  bool Sends() const TANDEM_REQUIRES(mutex_) {
    return welcome_.has_value() && state_ != State::kOver;
  }

  const std::weak_ptr<DraftClient> client_;
  const CheckWelcome check_;
  const std::string draft_;

  concurrency::Mutex mutex_;
  State state_ TANDEM_GUARDED_BY(mutex_) = State::kGreeting;
  std::shared_ptr<Sink> sink_ TANDEM_GUARDED_BY(mutex_);
  std::optional<v1::Welcome> welcome_ TANDEM_GUARDED_BY(mutex_);  // it fits
  WriteTurns turns_ TANDEM_GUARDED_BY(mutex_);
  DraftBatches batches_ TANDEM_GUARDED_BY(mutex_);
  std::map<base::SequenceId, Sequence> sequences_ TANDEM_GUARDED_BY(mutex_);
  base::SequenceId last_sequence_ TANDEM_GUARDED_BY(mutex_){};
  uint64_t heard_ TANDEM_GUARDED_BY(mutex_) = 0;  // messages
};

}  // namespace tandem::orchestrator
