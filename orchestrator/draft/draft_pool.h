// All drafts, and which request goes to which: at every Open, of two drawn at random the one with the
// shorter queue (peers/chooser.h): rows that it reports as waiting, then sequences that we have there.
//
// A draft that failed is left alone for a while, by all requests: longer each time, until a stream to it
// begins well again. When all have failed, the one whose time is over first is tried.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/mutex.h"
#include "orchestrator/draft/draft_client.h"
#include "orchestrator/draft/draft_session.h"
#include "orchestrator/peers/chooser.h"
#include "orchestrator/peers/retry_delay.h"
#include "tandem/v1/tokens.pb.h"

namespace tandem::orchestrator {

// Thread-safe.
class DraftPool : public std::enable_shared_from_this<DraftPool> {
 public:
  // At least one client. `clock` outlives all sessions. `seed`: of the draws. A failed draft is left alone
  // for backoff_least to backoff_most.
  DraftPool(std::vector<std::shared_ptr<DraftClient>> clients, const concurrency::Clock& clock,
            absl::Duration backoff_least, absl::Duration backoff_most, uint64_t seed);

  // `events` may be called from any thread, and hands over to the request's strand.
  std::unique_ptr<DraftSession> NewSession(std::shared_ptr<DraftEvents> events);

  // Of the first draft, in the flags' order, that ever fitted; empty: none did.
  std::string model_id() const;
  // In the flags' order.
  std::vector<v1::Peer> Peers() const;

 private:
  class Session;
  struct Draft {
    std::shared_ptr<DraftClient> client;
    RetryDelay backoff;
    absl::Duration failed_until;
    uint64_t failed_welcomes = 0;  // DraftClient::Status::welcomes when it failed
    bool failed = false;
  };

  // Of those not in `refused`, which are fewer than all.
  size_t Choose(const std::set<size_t>& refused);
  // When Choose has a draft that is worth it, now that `index` has failed.
  NextDraft Failed(size_t index, DraftLoss loss, absl::Duration at_least,
                   const std::set<size_t>& refused);
  bool IsFailed(const Draft& draft) const TANDEM_REQUIRES(mutex_);

  const concurrency::Clock& clock_;
  const std::vector<std::shared_ptr<DraftClient>> clients_;

  mutable concurrency::Mutex mutex_;
  std::vector<Draft> drafts_ TANDEM_GUARDED_BY(mutex_);  // as clients_
  Chooser chooser_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::orchestrator
