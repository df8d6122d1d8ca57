// All drafts, and which request goes to which: at every Open, of two drawn at random the one with
// the shorter queue (peers/chooser.h): rows that it reports as waiting, then sequences that we have
// there.
//
// Which drafts there are: peers/peer_set.h. Nothing is opened any more at one that is leaving.
//
// A draft that failed is ejected (draft_health.h), for all requests, until it answers somebody's
// Advance: a new stream alone proves nothing, one whose device hangs greets as politely as any. One
// that is full is left alone for as long as it wants to be, and did not fail. When all are left
// alone, the one whose time is over first is tried.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/mutex.h"
#include "orchestrator/draft/draft_client.h"
#include "orchestrator/draft/draft_health.h"
#include "orchestrator/draft/draft_session.h"
#include "orchestrator/peers/chooser.h"
#include "orchestrator/peers/peer_address.h"
#include "orchestrator/peers/peer_set.h"
#include "tandem/v1/tokens.pb.h"

namespace tandem::orchestrator {

// Makes the client of a draft. One call at a time.
using MakeDraftClient = std::function<std::shared_ptr<DraftClient>(const PeerAddress& peer)>;

struct DraftPoolOptions {
  absl::Duration ejection_min = absl::Seconds(1);
  absl::Duration ejection_max = absl::Seconds(30);
  uint64_t seed = 0;  // of the draws
};

// Thread-safe.
class DraftPool : public std::enable_shared_from_this<DraftPool> {
 public:
  // With no draft yet. `clock` outlives all sessions.
  DraftPool(MakeDraftClient make_client, const concurrency::Clock& clock, DraftPoolOptions options);

  // The drafts that there are from now on.
  void SetPeers(const PeerList& list);

  // `events` may be called from any thread, from inside the session's calls, too, and hands over to
  // the request's strand. An Open that finds no draft is answered by OnDraftLost.
  std::unique_ptr<DraftSession> NewSession(std::shared_ptr<DraftEvents> events);

  // Of the first draft, in the list's order, that ever fitted; else of one that has left; empty:
  // none did.
  std::string model_id() const;
  // In the list's order; then those that are leaving.
  std::vector<v1::Peer> Peers() const;

 private:
  class Session;
  using Drafts = PeerSet<DraftClient, DraftHealth>;
  // What a session goes to.
  struct Choice {
    uint64_t id = 0;  // 0: nowhere
    std::shared_ptr<DraftClient> client;
    std::string problem;  // why nowhere
  };

  // Of those not in `refused`.
  Choice Choose(const std::set<uint64_t>& refused);
  // When Choose has a draft that is worth it, now that `id` has failed (0: there was none).
  NextDraft Failed(uint64_t id, DraftLoss loss, absl::Duration at_least,
                   const std::set<uint64_t>& refused);

  const MakeDraftClient make_client_;
  const concurrency::Clock& clock_;

  concurrency::Mutex setting_;  // one SetPeers at a time; before mutex_
  mutable concurrency::Mutex mutex_;
  Drafts drafts_ TANDEM_GUARDED_BY(mutex_);
  std::string last_model_id_ TANDEM_GUARDED_BY(mutex_);  // of one that has left
  std::string problem_ TANDEM_GUARDED_BY(mutex_);        // why there is no draft
  Chooser chooser_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::orchestrator
