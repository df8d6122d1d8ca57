// The sessions of a TargetPool, and the line of those that wait for a target (waiting_line.h).
//
// The line is served from its front. Each session takes the best target that may have a slot and
// room for it (target_search.h). One that finds no room waits for that of one target, and keeps it
// from all who stand behind it. So a long text is served though short ones come all the time.
//
// Who waits for room asks the target again every now and then, under the same sequence number. The
// target may serve other orchestrators, too: it keeps room for a sequence that asks again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "common/base/ids.h"
#include "common/concurrency/instant.h"
#include "orchestrator/peers/chooser.h"
#include "orchestrator/request/waiting_line.h"
#include "orchestrator/verify/sequence_mux.h"
#include "orchestrator/verify/target_search.h"
#include "orchestrator/verify/verify_session.h"

namespace tandem::orchestrator {

// Not thread-safe: guarded by the pool's lock. It calls clients but no session's events. Sessions
// are named by numbers that rise with the arrival of their requests.
class TargetLine {
 public:
  using Link = SequenceMux::Link;
  using EventsList = std::vector<std::shared_ptr<VerifyEvents>>;

  struct Session {
    std::shared_ptr<VerifyEvents> events;
    SessionNeeds needs;
    std::shared_ptr<Link> link;  // null: at no target
    TargetInfo target;           // the target of the link, or of the one before
    // The number of its sequence: the one of the link, or of the link whose stream was lost last.
    std::optional<base::SequenceId> sequence;
    // The sequence that a target refused last, while the session is at no target. The target knows
    // that it waits.
    std::shared_ptr<Link> parked;
    SessionPast past;
  };

  explicit TargetLine(uint64_t seed);

  uint64_t Add(std::shared_ptr<VerifyEvents> events, SessionNeeds needs);
  Session& At(uint64_t id) { return sessions_.at(id); }
  // The session's events; free them without the lock.
  std::shared_ptr<VerifyEvents> Remove(uint64_t id);

  void Join(uint64_t id);
  // Returns whether it stood in line. Its parked sequence is given up.
  bool Leave(uint64_t id);
  bool empty() const { return line_.empty(); }
  size_t size() const { return line_.size(); }
  EventsList All() const;  // of those in line

  // Gives targets to those who can have one. They leave the line; returns their events. Who waits
  // for room at a target, and asked there now, asks again from `next` on.
  EventsList Serve(std::vector<TargetView>& views, concurrency::Instant now,
                   concurrency::Instant next);

  // The session pauses: its slot goes to whoever wants it. It counts until it leaves its target.
  void Offer(uint64_t id);
  // The events of sessions whose slots were offered, as many as there are sessions in line. Their
  // offers are over.
  EventsList TakeOffers();

  // Sequences that nobody needs any more. Free them without the lock.
  std::vector<std::shared_ptr<Link>> TakeLeft();

 private:
  // Room is kept for the session that has asked for it and waits for the answer.
  void KeepForAsker(TargetView& view);
  bool Assign(uint64_t id, Session& session, std::vector<TargetView>& views,
              concurrency::Instant now, concurrency::Instant next);
  // False: the target's stream has just ended.
  bool OpenAt(TargetView& view, Session& session);

  Chooser chooser_;
  WaitingLine line_;
  std::set<uint64_t> offers_;  // sessions with available slots
  std::map<uint64_t, Session> sessions_;
  uint64_t last_session_ = 0;
  base::SequenceId last_sequence_;
  std::vector<std::shared_ptr<Link>> left_;
};

}  // namespace tandem::orchestrator
