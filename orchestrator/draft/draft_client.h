// The client of one draft service. All requests share one Propose stream (draft_stream.h): the
// first one opens it, and the first one after its end opens the next. The loop decides when to come
// back after a loss (draft/drafting.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/concurrency/mutex.h"
#include "orchestrator/draft/draft_session.h"
#include "orchestrator/peers/connector.h"
#include "orchestrator/peers/peer_address.h"
#include "tandem/internal/v1/draft.pb.h"

namespace tandem::orchestrator {

// Thread-safe. Sessions share it.
class DraftClient : public std::enable_shared_from_this<DraftClient> {
 public:
  // `hello`.incarnation is the first incarnation.
  DraftClient(PeerAddress peer, internal::v1::Hello hello,
              OpenStream<internal::v1::DraftRequest, internal::v1::DraftReply> open,
              CheckWelcome check);
  ~DraftClient();

  // `events` is called on any thread and hands over to the request's strand. The session uses this
  // draft only: its GiveUp returns kLater, or kNever once the draft has refused.
  std::unique_ptr<DraftSession> NewSession(std::shared_ptr<DraftEvents> events);

  // What a greeting (draft_greeting.h) found: `fits` is OK, or why the draft does not fit. A
  // misfit, and a draft that was lost, is of use again when a greeting or a stream says so. What
  // one that fits offers is known from then on.
  void Greeted(const v1::DescribeReply& reply, const absl::Status& fits);
  // A greeting was not answered. Streams know better, so it counts only while we have none there.
  void Unanswered(const std::string& reason);

  // The model of the draft that fitted last, by a greeting or a stream; empty before the first.
  std::string model_id() const;
  // The drafters that the draft offers, with the default first. Empty if the draft does not say, or
  // if it is not known: nothing has been greeted yet, or the last stream failed.
  std::vector<std::string> drafters() const;
  // Of these the ones that draft trees. An empty name among them: the default one does.
  std::vector<std::string> tree_drafters() const;
  // Likewise those that have a q to draw from.
  std::vector<std::string> sampling_drafters() const;

  // False if the draft has said what it offers, and this drafter is not among it. Empty: any has
  // it.
  bool MayOffer(const std::string& drafter) const;

  struct Status {
    uint64_t answers = 0;      // answers so far that only a working draft gives
    uint32_t sequences = 0;    // sequences that we have there or are opening
    uint32_t queued_rows = 0;  // from its last report; 0 if we have no stream there
    bool well = true;          // its last stream or greeting did not fail
    bool misfit = false;       // a greeting found that it does not fit
  };
  Status status() const;
  uint32_t sequences() const { return status().sequences; }
  v1::Peer Describe() const;

 private:
  class Stream;  // draft_stream.h
  class Session;

  // What the draft offers, as far as that is known; else null.
  const v1::Welcome* Offer() const TANDEM_REQUIRES(mutex_);
  using DrafterList =
      const google::protobuf::RepeatedPtrField<std::string>& (v1::Welcome::*)() const;
  // Of its drafters those that are in this list of its offer, or those that are not.
  std::vector<std::string> Among(DrafterList list, bool listed) const;
  void Failed(DraftLoss loss, const std::string& reason);
  // Logs a line each time that the problem is another one.
  void Problem(bool refused, absl::string_view what, const std::string& reason);
  void Fits(const v1::Welcome& welcome);
  // A message came, with this many answers that only a working draft gives; `first`: its first
  // Block.
  void Reported(const internal::v1::Block& first, uint64_t answers);
  void Count(int more);
  // Begins a sequence on the stream that there is, or on a new one.
  std::pair<std::shared_ptr<Stream>, base::SequenceId> Open(std::shared_ptr<DraftEvents> events,
                                                            const DraftOpen& open);
  // The stream takes no sequences any more.
  void StreamOver(const Stream& stream);

  const PeerAddress peer_;
  const internal::v1::Hello hello_;
  const OpenStream<internal::v1::DraftRequest, internal::v1::DraftReply> open_;
  const CheckWelcome check_;

  mutable concurrency::Mutex mutex_;
  std::shared_ptr<Stream> stream_ TANDEM_GUARDED_BY(mutex_);  // null: the next sequence opens one
  uint64_t streams_ TANDEM_GUARDED_BY(mutex_) = 0;            // opened so far
  uint64_t answers_ TANDEM_GUARDED_BY(mutex_) = 0;
  uint32_t sequences_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::optional<v1::Welcome> welcome_ TANDEM_GUARDED_BY(mutex_);  // the last one that fitted
  std::optional<v1::Load> load_ TANDEM_GUARDED_BY(mutex_);        // the last report
  std::string problem_ TANDEM_GUARDED_BY(mutex_);  // the last one; empty: it fitted since
  bool misfit_ TANDEM_GUARDED_BY(mutex_) = false;
};

}  // namespace tandem::orchestrator
