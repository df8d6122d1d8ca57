// Holds all drafts and chooses one at every Open: of two drawn at random, the one with the shorter
// queue (peers/chooser.h). The queue is counted by the rows that the draft reports as waiting, and
// then by our sequences there.
//
// peers/peer_set.h decides which drafts there are. Nothing is opened at a draft that is leaving.
//
// A draft that failed is ejected for all requests (draft_health.h) until it answers somebody's
// Advance. A new stream is not enough, because a draft whose device hangs greets as well as any. A
// draft that is full did not fail; it is left alone for as long as it asks. When all drafts are
// left alone, the one whose time ends first is tried. A draft that a greeting found not to fit
// (draft_greeting.h) is not tried.
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
#include "tandem/v1/describe.pb.h"

namespace tandem::orchestrator {

// Makes the client of a draft. Only one call is made at a time.
using MakeDraftClient = std::function<std::shared_ptr<DraftClient>(const PeerAddress& peer)>;

struct DraftPoolOptions {
  absl::Duration ejection_min = absl::Seconds(1);
  absl::Duration ejection_max = absl::Seconds(30);
  uint64_t seed = 0;  // for the draws
};

// Thread-safe.
class DraftPool : public std::enable_shared_from_this<DraftPool> {
 public:
  // The pool has no draft yet. `clock` outlives all sessions.
  DraftPool(MakeDraftClient make_client, const concurrency::Clock& clock, DraftPoolOptions options);

  // Sets the drafts that exist from now on.
  void SetPeers(const PeerList& list);

  // `events` is called on any thread, also from inside the session's calls, and hands over to the
  // request's strand. An Open that finds no draft is answered by OnDraftLost.
  std::unique_ptr<DraftSession> NewSession(std::shared_ptr<DraftEvents> events);

  // The model of the first draft in the list's order that ever fitted; else that of one that has
  // left; else empty.
  std::string model_id() const;
  // The drafters that the connected drafts offer, without repetition. Drafts that are leaving do
  // not count. Empty if none is connected or none says.
  std::vector<std::string> drafters() const;
  // The same of those that draft trees, and of those that sample (DraftClient).
  std::vector<std::string> tree_drafters() const;
  std::vector<std::string> sampling_drafters() const;
  // In the list's order, followed by those that are leaving.
  std::vector<v1::Peer> Peers() const;

 private:
  class Session;
  using Drafts = PeerSet<DraftClient, DraftHealth>;
  // The draft that a session uses.
  struct Choice {
    uint64_t id = 0;  // 0: nowhere
    std::shared_ptr<DraftClient> client;
    DraftLoss loss = DraftLoss::kLost;  // nowhere: whether all refuse, or there is none
    std::string problem;                // why nowhere
  };

  // What the drafts that are not leaving say, without repetition.
  std::vector<std::string> Names(std::vector<std::string> (DraftClient::*names)() const) const;
  // Chooses among the drafts that are not in `refused` and fit, and have the drafter.
  Choice Choose(const std::set<uint64_t>& refused, const std::string& drafter);
  // Says when Choose can offer a draft again, now that `id` has failed (0: there was none).
  NextDraft Failed(uint64_t id, DraftLoss loss, absl::Duration at_least,
                   const std::set<uint64_t>& refused, const std::string& drafter);

  const MakeDraftClient make_client_;
  const concurrency::Clock& clock_;

  concurrency::Mutex setting_;  // held by SetPeers, so one runs at a time; taken before mutex_
  mutable concurrency::Mutex mutex_;
  Drafts drafts_ TANDEM_GUARDED_BY(mutex_);
  std::string last_model_id_ TANDEM_GUARDED_BY(mutex_);  // model of a draft that has left
  std::string problem_ TANDEM_GUARDED_BY(mutex_);        // why there is no draft
  Chooser chooser_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::orchestrator
