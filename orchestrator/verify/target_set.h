// The targets of a TargetPool and the state of each: additions and removals (peers/peer_set.h),
// ejection (target_health.h), free slots (target_slots.h).
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

// Not thread-safe: guarded by the pool's lock. It calls clients without waiting for them.
class TargetSet {
 public:
  using Peers = PeerSet<VerifyClient, TargetHealth, TargetSlots>;
  using Target = Peers::Member;
  using Clients = std::vector<std::shared_ptr<VerifyClient>>;

  TargetSet(absl::Duration ejection_min, absl::Duration ejection_max, uint64_t seed);

  // The two halves of applying a list of addresses (PeerSet). Both return whether waiting sessions
  // may be affected.
  Peers::News Compare(const PeerList& list);
  bool Arrange(const PeerList& list, const std::vector<PeerAddress>& fresh, Clients made);

  // Removes leaving targets that have no work left.
  struct Left {
    Clients to_close;   // close them with no lock held
    Clients forgotten;  // their streams have ended; free them with no lock held
  };
  Left TakeLeft();

  // The target that had this stream in the last call of Views; null if none had.
  Target* Of(base::Incarnation incarnation);
  // The connected targets. A full target may be tried again after its time, and then every
  // `retry_after`. Pointers are valid until a target is removed.
  std::vector<TargetView> Views(concurrency::Instant now, absl::Duration retry_after);

  // OK if at least one target is connected. Otherwise the error says why; FAILED_PRECONDITION means
  // that none is compatible.
  absl::Status Ready() const;
  // Why a session of this model (empty: any) has no target: incompatible ones, or no free slot.
  SeekResult WhyNot(const std::string& model_id) const;
  // The Welcome of the first connected target; else of the first that was ever connected; else of a
  // target that has left.
  std::optional<v1::Welcome> welcome() const;
  // Maximum tokens of a sequence of this model at any target; 0: unknown.
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
