// The targets of a TargetPool, and what is known about each: who comes and goes (peers/peer_set.h),
// who is left alone (target_health.h), who has slots (target_slots.h).
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
#include "orchestrator/verify/target_health.h"
#include "orchestrator/verify/target_search.h"
#include "orchestrator/verify/target_slots.h"
#include "orchestrator/verify/verify_client.h"
#include "orchestrator/verify/verify_session.h"
#include "tandem/v1/describe.pb.h"

namespace tandem::orchestrator {

// Not thread-safe: guarded by the pool's lock. It calls clients but waits for none.
class TargetSet {
 public:
  using Peers = PeerSet<VerifyClient, TargetHealth, TargetSlots>;
  using Target = Peers::Member;
  using Clients = std::vector<std::shared_ptr<VerifyClient>>;

  TargetSet(absl::Duration ejection_min, absl::Duration ejection_max, uint64_t seed);

  // The two halves of taking up a list (PeerSet). The results of both say whether a waiting session
  // may be concerned.
  Peers::News Compare(const PeerList& list);
  bool Arrange(const PeerList& list, const std::vector<PeerAddress>& fresh, Clients made);

  // Takes out the targets that are leaving and have nothing left to do.
  struct Left {
    Clients to_close;   // close them with no lock held
    Clients forgotten;  // their streams have ended; free them with no lock held
  };
  Left TakeLeft();

  // The target that had this stream when Views last looked; null if none had.
  Target* Of(base::Incarnation incarnation);
  // The connected targets. A full target may be tried again when its time is over, and then every
  // `retry_after`. Pointers are valid until a target is taken out.
  std::vector<TargetView> Views(concurrency::Instant now, absl::Duration retry_after);

  // OK if at least one target is connected. Else the error says why not; FAILED_PRECONDITION means
  // that none fits.
  absl::Status Ready() const;
  // Says why a session of this model (empty: of any) has no target: none fits, or none has a slot.
  SeekResult WhyNot(const std::string& model_id) const;
  // The Welcome of the first connected target; else of the first that was ever connected; else of
  // one that has left.
  std::optional<v1::Welcome> welcome() const;
  // The most tokens that a sequence of this model may have at any target; 0: no target says.
  uint32_t MaxLength(const std::string& model_id) const;
  std::vector<v1::Peer> Describe(concurrency::Instant now) const { return peers_.Describe(now); }

  Clients clients() const;  // of all targets
  const Clients& closing() const {
    return closing_;
  }  // targets that were closed and have not ended

 private:
  Peers peers_;
  Clients closing_;
  std::vector<std::string> problems_;        // those of names without an address
  std::optional<v1::Welcome> last_welcome_;  // that of a target that has left
};

}  // namespace tandem::orchestrator
