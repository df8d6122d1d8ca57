// The way to a draft service: a Propose stream for each request, over one channel.
//
// A stream begins with Hello; when the draft's Welcome fits, the sequence is opened and the loop
// hears OnDraftOpened. A draft that does not fit never sees a prompt. Coming back after a loss is
// the loop's decision (draft/drafting.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/concurrency/mutex.h"
#include "orchestrator/draft/draft_session.h"
#include "orchestrator/peers/connector.h"
#include "orchestrator/peers/peer_address.h"
#include "tandem/v1/draft.pb.h"

namespace tandem::orchestrator {

// Thread-safe. Sessions share it.
class DraftClient : public std::enable_shared_from_this<DraftClient> {
 public:
  // hello.incarnation: the first one.
  DraftClient(PeerAddress peer, v1::Hello hello, OpenStream<v1::DraftRequest, v1::DraftReply> open,
              CheckWelcome check);

  // `events` may be called from any thread, and hands over to the request's strand. The session is this
  // draft's alone: its GiveUp says kLater, or kNever once the draft has refused.
  std::unique_ptr<DraftSession> NewSession(std::shared_ptr<DraftEvents> events);

  // Of the draft that last fitted; empty before the first.
  std::string model_id() const;

  struct Status {
    uint64_t answers = 0;      // that only a draft which works gives, so far
    uint32_t sequences = 0;    // that we have there, or are about to have
    uint32_t queued_rows = 0;  // of its last report; 0 when nobody is there to hear of it
    bool well = true;          // its last stream did not fail
  };
  Status status() const;
  uint32_t sequences() const { return status().sequences; }
  v1::Peer Describe() const;

 private:
  class Stream;  // draft_stream.h
  class Session;

  // One line in the log each time that something else is the matter.
  void Failed(DraftLoss loss, const std::string& reason);
  void Fits(const v1::Welcome& welcome);
  void Reported(const v1::Block& block, bool works);
  void Count(int more);
  uint64_t NextIncarnation();

  const PeerAddress peer_;
  const v1::Hello hello_;
  const OpenStream<v1::DraftRequest, v1::DraftReply> open_;
  const CheckWelcome check_;

  mutable concurrency::Mutex mutex_;
  uint64_t streams_ TANDEM_GUARDED_BY(mutex_) = 0;  // opened so far
  uint64_t answers_ TANDEM_GUARDED_BY(mutex_) = 0;
  uint32_t sequences_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::optional<v1::Welcome> welcome_ TANDEM_GUARDED_BY(mutex_);  // the last one that fitted
  std::optional<v1::Load> load_ TANDEM_GUARDED_BY(mutex_);        // the last report
  std::string problem_ TANDEM_GUARDED_BY(mutex_);  // the last one; empty: it fitted since
};

}  // namespace tandem::orchestrator
