// Which targets a TargetPool has, and what is known of each: who comes (peers/peer_set.h), who is
// left alone (target_health.h), who has slots (target_slots.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "orchestrator/peers/peer_address.h"
#include "orchestrator/peers/peer_set.h"
#include "orchestrator/verify/seat_search.h"
#include "orchestrator/verify/target_health.h"
#include "orchestrator/verify/target_slots.h"
#include "orchestrator/verify/verify_client.h"
#include "orchestrator/verify/verify_session.h"
#include "tandem/v1/tokens.pb.h"

namespace tandem::orchestrator {

// Not thread-safe: the pool's lock. It calls clients, and waits for none.
class TargetSet {
 public:
  using Peers = PeerSet<VerifyClient, TargetHealth, TargetSlots>;
  using Target = Peers::Member;
  using Clients = std::vector<std::shared_ptr<VerifyClient>>;

  TargetSet(absl::Duration ejection_min, absl::Duration ejection_max, uint64_t seed);

  // The two halves of taking up a list (PeerSet). Both say whether somebody who waits may be
  // concerned.
  Peers::News Compare(const PeerList& list);
  bool Arrange(const PeerList& list, const std::vector<PeerAddress>& fresh, Clients made);

  // Those that are leaving and have nothing to do any more are taken out.
  struct Left {
    Clients to_close;   // to be closed, with no lock held
    Clients forgotten;  // their streams have ended; to be freed with no lock held
  };
  Left TakeLeft();

  // The target that, as far as Views has seen, has this stream; null: none.
  Target* Of(base::Incarnation incarnation);
  // Those that are connected. One that is full may be tried again when its time is over, and then
  // every `retry_after`. Pointers hold until a target is taken out.
  std::vector<TargetView> Views(concurrency::Instant now, absl::Duration retry_after);

  // OK: at least one is connected. Else why not; FAILED_PRECONDITION when none fits.
  absl::Status Ready() const;
  // Why a session of this model (empty: any) has none: no target that fits, or no slot.
  Seat WhyNot(const std::string& model_id) const;
  // Of the first that is connected; else of the first that ever was; else of one that has left.
  std::optional<v1::Welcome> welcome() const;
  std::vector<v1::Peer> Describe(concurrency::Instant now) const { return peers_.Describe(now); }

  Clients clients() const;                             // of all targets
  const Clients& closing() const { return closing_; }  // that were closed and have not ended

 private:
  Peers peers_;
  Clients closing_;
  std::vector<std::string> problems_;        // of names without an address
  std::optional<v1::Welcome> last_welcome_;  // of one that has left
};

}  // namespace tandem::orchestrator
