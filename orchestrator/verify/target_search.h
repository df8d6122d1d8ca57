// Finds the best target for a session. A target is better if it, in this order of importance,
//
// - takes new sequences: it is not leaving and did not say DRAINING on its stream;
// - is not ejected; if all are, the one whose time ends first is better;
// - did not just fail this session;
// - has the numerics that the text began with (equal numerics, equal bits);
// - has the shorter queue of two drawn at random (peers/chooser.h): rows that it reported as
//   waiting and our rows sent since, then our sequences there.
//
// Only targets of the session's model are considered that can hold its text at all. A target that
// is leaving, draining or ejected is taken only if there is no other: a full target is worth
// waiting for. A session that finds a slot but no room waits for the room of one target.
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
  uint32_t priority = 0;    // 0 to 10; higher ones stand first in line
  std::string client;       // its connection; those of one priority have turns
  uint32_t length = 0;      // tokens that its text may have, prompt and output together
  uint32_t max_nodes = 0;   // draft tokens in its trees; 0: it has none
};

// What a session has experienced at targets.
struct SessionPast {
  base::Incarnation failed{};        // the stream that failed it last
  base::Incarnation small{};         // a stream that had slots, but no room for it: it waits there
  concurrency::Instant small_until;  // of `small`: not tried before, whatever it reports
};

// A connected target, as it is while the line is served.
struct TargetView {
  VerifyClient* client;
  TargetSlots* slots;
  TargetInfo info;
  bool leaving;
  uint64_t queued_rows;
  uint32_t sequences;
  concurrency::Instant ejected_until;  // the infinite past: it is not
  bool kept = false;  // its room is kept for a session that stands further in front, or asks now
};

// A search for one session at one moment. Not thread-safe. The arguments outlive it.
class TargetSearch {
 public:
  TargetSearch(const SessionNeeds& needs, const SessionPast& past, std::vector<TargetView>& views,
               concurrency::Instant now);

  // The best target that may have a slot and room, and was not returned yet; null if none is left.
  TargetView* Next(Chooser& chooser);
  // The target whose room the session waits for: the one that refused it, else the one that has
  // most. Null: each one lacks a slot, or its room is kept for another session.
  TargetView* ToWaitFor() const;

 private:
  const SessionNeeds& needs_;
  const SessionPast& past_;
  std::vector<TargetView*> fitting_;
  std::vector<TargetView*> lacking_;  // have a slot but no room
};

}  // namespace tandem::orchestrator
