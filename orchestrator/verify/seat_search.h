// Which target is the best one for a session. Best, in this order:
//
//   takes new sequences (is not leaving, did not say DRAINING on its stream)
//   is not ejected; where all are, the one whose time is over first
//   did not just fail this session
//   has the numerics that the text began with (equal numerics, equal bits)
//   has the shorter queue of two drawn at random (peers/chooser.h): rows reported as waiting and
//   ours that were sent since, then our sequences there
//
// Only targets of the session's model are considered at all. One of the lower of the first two
// sorts is taken only when there is none of the higher: a full target is worth waiting for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/concurrency/instant.h"
#include "orchestrator/peers/chooser.h"
#include "orchestrator/verify/target_info.h"
#include "orchestrator/verify/target_slots.h"
#include "orchestrator/verify/verify_client.h"

namespace tandem::orchestrator {

// What a request needs of its targets.
struct SessionNeeds {
  std::string model_id;     // empty: that of its first target
  std::string numerics_id;  // preferred; empty: that of its first target
  uint32_t priority = 0;    // 0 to 10: higher ones stand before lower ones in line
};

// What a session has met at targets.
struct SessionPast {
  base::Incarnation failed{};  // the stream that failed it last
  base::Incarnation small{};   // a stream that has slots, but had none for it (too little memory)
  concurrency::Instant small_until;  // of `small`
};

// A connected target as it is while the line is served.
struct TargetView {
  VerifyClient* client;
  TargetSlots* slots;
  TargetInfo info;
  bool leaving;
  uint64_t queued_rows;
  uint32_t sequences;
  concurrency::Instant ejected_until;  // the infinite past: it is not
};

// Of one session, at one moment. Not thread-safe. Arguments outlive it.
class SeatSearch {
 public:
  SeatSearch(const SessionNeeds& needs, const SessionPast& past, std::vector<TargetView>& views,
             concurrency::Instant now);

  // The best of those that may have a slot and were not named yet; null: there is none left.
  TargetView* Next(Chooser& chooser);

 private:
  const SessionNeeds& needs_;
  const SessionPast& past_;
  std::vector<TargetView*> fitting_;
};

}  // namespace tandem::orchestrator
