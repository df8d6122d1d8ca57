// A pool, targets and sessions to which anything may happen, and a book of what must hold then.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/orchestrator/verify/pool_guest.h"

namespace tandem::orchestrator {

// Between the pool and the book: bugs as a pool might have them.
enum class Planted {
  kNothing,
  kDropsNudges,    // who waits is not told
  kKeepsSessions,  // a session that leaves stays where it was
  kKeepsTargets,   // a target that is not named any more is kept as an ordinary one
  kMixesModels,    // a target says that it has another model than it has
  kLosesTargets,   // one that is named is not taken up
};

class MembersWorld {
 public:
  MembersWorld(uint32_t seed, Planted planted)
      : random_(seed), planted_(planted), harness_(kTargets), members_(kGuests) {
    for (size_t i = 0; i < kTargets; ++i) {
      if (TrueModel(i) == "another") harness_.target(i).welcome.set_model_id("another");
      if (planted == Planted::kMixesModels) harness_.target(i).welcome.set_model_id("model");
    }
    harness_.SetPeers("");
    harness_.DeliverAll();
    for (Member& member : members_) Newcomer(member);
  }

  // How often a target was seen that was leaving, or ejected; how often a session that waited.
  struct Seen {
    int leaving = 0;
    int ejected = 0;
    int waiting = 0;
  };
  const Seen& seen() const { return seen_; }

  // What did not hold; empty: all is well.
  std::vector<std::string> Run(int steps) {
    for (int i = 0; i < steps && wrong_.empty(); ++i) {
      Something();
      Deliver();
      Check();
      if (i % 5 == 0 && wrong_.empty()) Settle();
    }
    return wrong_;
  }

 private:
  static constexpr size_t kTargets = 5;
  static constexpr size_t kGuests = 12;

  // What a guest knows of itself.
  struct Member {
    std::shared_ptr<Guest> guest;
    std::string model;     // empty: none yet
    bool seated = false;   // has got a target, and not left it
    bool waiting = false;  // has sought, and got none
    int heard = 0;         // nudges
  };

  static std::string Name(size_t target) { return std::string(1, static_cast<char>('a' + target)); }
  static std::string TrueModel(size_t target) { return target < 3 ? "model" : "another"; }
  size_t Below(size_t limit) { return random_() % limit; }

  void SetPeers(std::string names) {
    listed_ = names;
    for (size_t i = 0; planted_ == Planted::kKeepsTargets && i < kTargets; ++i) {
      if (names.find(Name(i)) == std::string::npos) names += Name(i);
    }
    if (planted_ == Planted::kLosesTargets && names.size() > 3) names.pop_back();
    harness_.SetPeers(names);
  }

  void Newcomer(Member& member) {
    member = {};
    const std::string models[] = {"", "model", "another"};
    member.model = models[Below(3)];
    member.guest =
        Come(harness_, {.model_id = member.model, .priority = static_cast<uint32_t>(Below(3))});
    Seek(member);
  }

  void Seek(Member& member) {
    member.heard = member.guest->nudges;
    const std::string got = member.guest->Seek();
    member.seated = member.guest->result.kind == SeekResult::Kind::kTarget;
    member.waiting = !member.seated;
    if (!member.seated) return;
    const std::string model = TrueModel(got[0] - 'a');
    if (member.model.empty()) member.model = model;
    if (member.model != model) {
      wrong_.push_back(absl::StrCat("a text of ", member.model, " goes on at ", got));
    }
  }

  void Leave(Member& member, LeaveCause cause) {
    if (planted_ != Planted::kKeepsSessions) {
      if (cause == LeaveCause::kDraining) drained_.insert(member.guest->result.target.incarnation);
      member.guest->session->Leave(cause, absl::Milliseconds(50));
    }
    member.seated = false;
  }

  bool Lost(const Member& member) const {
    const auto& lost = member.guest->lost;
    return std::find(lost.begin(), lost.end(), member.guest->result.target.incarnation) !=
           lost.end();
  }

  void Something() {
    WireTarget& target = harness_.target(Below(kTargets));
    Member& member = members_[Below(kGuests)];
    switch (Below(12)) {
      case 0:
      case 1: {
        std::string names;
        for (size_t i = 0; i < kTargets; ++i) {
          if (Below(3) > 0) names += Name(i);
        }
        std::shuffle(names.begin(), names.end(), random_);
        return SetPeers(names);
      }
      case 2:
        return target.Cut();
      case 3:
        return target.Kill();
      case 4:
        target.reachable = true;
        return;
      case 5:
        return Newcomer(member);
      case 6:
        member.guest->session->Close();
        member.seated = member.waiting = false;
        return;
      case 7:
        if (member.seated) {
          const std::string reason = "no verdict";
          member.guest->session->GiveUp(member.guest->result.target.incarnation, reason);
        }
        return;
      case 8:
        if (member.seated) member.guest->result.target.pace->Good();
        return;
      case 9:
        return harness_.timers.Advance(absl::Milliseconds(Below(500)));
      default:
        if (member.seated) {
          const LeaveCause causes[] = {LeaveCause::kFault, LeaveCause::kFault, LeaveCause::kNoSlot,
                                       LeaveCause::kDraining};
          Leave(member, causes[Below(4)]);
        }
        if (!member.waiting && Below(2) > 0) Seek(member);
        return;
    }
  }

  // Everybody does at once what a loop would do.
  void Deliver() {
    for (bool again = true; again;) {
      harness_.DeliverAll();
      again = false;
      for (Member& member : members_) {
        if (member.seated && Lost(member)) {
          Leave(member, LeaveCause::kLost);
          Seek(member);
          again = true;
        } else if (member.waiting && member.guest->nudges > member.heard &&
                   planted_ != Planted::kDropsNudges) {
          Seek(member);
          again = true;
        }
      }
    }
  }

  void Check() {
    std::map<std::string, uint32_t> there;
    for (const Member& member : members_) {
      if (member.seated) ++there[member.guest->result.target.name];
    }
    std::string ordinary;
    std::string all;
    for (const v1::Peer& peer : harness_.pool().Peers()) {
      all += peer.address();
      if (!peer.leaving()) ordinary += peer.address();
      seen_.leaving += peer.leaving() ? 1 : 0;
      seen_.ejected += peer.ejected() ? 1 : 0;
      if (peer.leaving() && peer.sequences() == 0) {
        wrong_.push_back(absl::StrCat(peer.address(), " has nothing to do and is kept"));
      }
      if (peer.sequences() != there[peer.address()]) {
        wrong_.push_back(absl::StrCat("at ", peer.address(), " are ", there[peer.address()],
                                      " sessions, it has ", peer.sequences()));
      }
      there.erase(peer.address());
    }
    for (const auto& [address, count] : there) {
      if (count > 0) wrong_.push_back(absl::StrCat("sessions are at ", address, ", which is gone"));
    }
    if (ordinary != listed_) {
      wrong_.push_back(absl::StrCat("the list is ", listed_, ", the pool has ", ordinary));
    }
    for (size_t i = 0; i < kTargets; ++i) {
      if (harness_.target(i).open() && all.find(Name(i)) == std::string::npos) {
        wrong_.push_back(absl::StrCat("a stream to ", Name(i), " is left over"));
      }
    }
  }

  // All that was asked for is over, and all say that they have slots: who waits now has nowhere to
  // go.
  void Settle() {
    harness_.timers.Advance(absl::Milliseconds(200));
    Deliver();
    for (size_t i = 0; i < kTargets; ++i) {
      if (harness_.target(i).open()) harness_.target(i).Report();
    }
    Deliver();
    Check();
    for (const Member& member : members_) {
      if (!member.waiting) continue;
      ++seen_.waiting;
      for (const std::string& free : Fitting(member.model, [](const v1::Peer&) { return true; })) {
        wrong_.push_back(
            absl::StrCat("a session of ", member.model, " waits, and ", free, " is free"));
      }
    }
    Place();
  }

  // Where a newcomer goes.
  void Place() {
    Member& member = members_[Below(kGuests)];
    Newcomer(member);
    if (!member.seated) return;
    const v1::Peer at = PeerOf(member.guest->result.target.name);
    const auto good = [this](const v1::Peer& peer) { return !peer.leaving() && !Drained(peer); };
    const auto better = [&](const v1::Peer& peer) { return good(peer) && !peer.ejected(); };
    if (!good(at) && !Fitting(member.model, good).empty()) {
      wrong_.push_back(absl::StrCat("a new session is at ", at.address(), ", which takes none"));
    } else if (good(at) && at.ejected() && !Fitting(member.model, better).empty()) {
      wrong_.push_back(absl::StrCat("a new session is at ", at.address(), ", which is ejected"));
    }
  }

  template <typename Good>
  std::vector<std::string> Fitting(const std::string& model, Good good) {
    std::vector<std::string> fitting;
    for (const v1::Peer& peer : harness_.pool().Peers()) {
      const bool fits = model.empty() || peer.welcome().model_id() == model;
      if (peer.ready() && fits && good(peer)) fitting.push_back(peer.address());
    }
    return fitting;
  }

  v1::Peer PeerOf(const std::string& address) {
    for (const v1::Peer& peer : harness_.pool().Peers()) {
      if (peer.address() == address) return peer;
    }
    return {};
  }

  bool Drained(const v1::Peer& peer) {
    const auto info = harness_.client(peer.address()[0] - 'a').info();
    return info.has_value() && drained_.contains(info->incarnation);
  }

  std::mt19937 random_;
  const Planted planted_;
  PoolHarness harness_;
  std::string listed_;
  std::vector<Member> members_;
  std::set<base::Incarnation> drained_;
  std::vector<std::string> wrong_;
  Seen seen_;
};

}  // namespace tandem::orchestrator
