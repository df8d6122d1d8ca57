// The peers of one kind that a pool has: one client for each address that the directory lists.
//
// A peer that is listed for the first time is new, and the pool makes its client. A peer that is
// not listed any more is leaving: what runs there goes on, and the peer is forgotten when nothing
// runs. If it is listed again before that, it is an ordinary peer again.
//
// A pool takes up a new list in two halves, because a client is made with no lock held:
//
//   auto news = peers.Compare(list, …);                     // under the pool's lock
//   for (const PeerAddress& peer : news.fresh) made.push_back(make_client(peer));
//   peers.Arrange(list, news.fresh, made, …);               // under the pool's lock
//   auto left = peers.TakeLeft();                           // under the lock; destroyed after it
//
// No other list may be taken up between the halves.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/concurrency/instant.h"
#include "orchestrator/peers/peer_address.h"
#include "orchestrator/peers/peer_line.h"
#include "tandem/v1/describe.pb.h"

namespace tandem::orchestrator {

struct NoNotes {};

// Client: sequences() is the number of our sequences there; Describe() is a v1::Peer without the
// fields that the set adds. Health: Ejected(now), ejections(). Notes: what else the pool keeps for
// a peer.
//
// Not thread-safe: guarded by the pool's lock. References to members are valid until TakeLeft or
// Compare takes them out.
template <typename Client, typename Health, typename Notes = NoNotes>
class PeerSet {
 public:
  struct Member {
    const uint64_t id;  // from 1, unique
    const PeerAddress peer;
    const std::shared_ptr<Client> client;
    Health health;
    Notes notes;
    bool leaving = false;
  };
  using Members = std::list<Member>;
  // Called once for each new member.
  using MakeHealth =
      std::function<Health(const std::shared_ptr<Client>& client, uint64_t member_id)>;

  // `kind` is "target" or "draft", for the log. It is a literal.
  PeerSet(absl::string_view kind, MakeHealth make_health)
      : kind_(kind), make_health_(std::move(make_health)) {}

  struct News {
    std::vector<PeerAddress> fresh;                 // listed and not here; each needs a client
    std::vector<std::shared_ptr<Client>> replaced;  // taken out; their peers are in `fresh`
    bool returned = false;                          // a peer that was leaving is listed again
  };
  // `may_return(client)` is asked for a peer that was leaving. False means that its client is of no
  // use any more.
  template <typename MayReturn>
  News Compare(const PeerList& list, MayReturn may_return);

  // Takes in the clients that were made for `fresh`, in its order, and puts all members into the
  // list's order. Members that are not listed come last and are leaving; leave(client) is called
  // when one begins to leave. Returns whether any did.
  template <typename Leave>
  bool Arrange(const PeerList& list, const std::vector<PeerAddress>& fresh,
               std::vector<std::shared_ptr<Client>> made, Leave leave);

  // Takes out the members that are leaving and have no sequence any more.
  Members TakeLeft();

  // In the list's order, followed by those that are leaving.
  typename Members::iterator begin() { return members_.begin(); }
  typename Members::iterator end() { return members_.end(); }
  typename Members::const_iterator begin() const { return members_.begin(); }
  typename Members::const_iterator end() const { return members_.end(); }
  size_t size() const { return members_.size(); }

  // A description for people.
  std::vector<v1::Peer> Describe(concurrency::Instant now) const;

 private:
  typename Members::iterator Find(const PeerAddress& peer) {
    return std::find_if(members_.begin(), members_.end(),
                        [&](const Member& member) { return member.peer == peer; });
  }

  const absl::string_view kind_;
  const MakeHealth make_health_;
  Members members_;
  uint64_t last_id_ = 0;
};

template <typename Client, typename Health, typename Notes>
template <typename MayReturn>
typename PeerSet<Client, Health, Notes>::News PeerSet<Client, Health, Notes>::Compare(
    const PeerList& list, MayReturn may_return) {
  News news;
  for (const PeerAddress& peer : list.peers) {
    const auto member = Find(peer);
    if (member == members_.end()) {
      news.fresh.push_back(peer);
    } else if (member->leaving) {
      news.returned = true;
      member->leaving = false;
      if (may_return(*member->client)) {
        TANDEM_LOG(kInfo) << PeerLine("peer_returned", kind_, peer);
      } else {
        news.replaced.push_back(member->client);
        news.fresh.push_back(peer);
        members_.erase(member);
      }
    }
  }
  return news;
}

template <typename Client, typename Health, typename Notes>
template <typename Leave>
bool PeerSet<Client, Health, Notes>::Arrange(const PeerList& list,
                                             const std::vector<PeerAddress>& fresh,
                                             std::vector<std::shared_ptr<Client>> made,
                                             Leave leave) {
  TANDEM_CHECK(made.size() == fresh.size());
  for (size_t i = 0; i < fresh.size(); ++i) {
    TANDEM_LOG(kInfo) << PeerLine("peer_found", kind_, fresh[i]);
    const uint64_t id = ++last_id_;
    Health health = make_health_(made[i], id);
    members_.push_back({id, fresh[i], std::move(made[i]), std::move(health), Notes(), false});
  }
  Members ordered;
  for (const PeerAddress& peer : list.peers) {
    const auto member = Find(peer);
    TANDEM_CHECK(member != members_.end()) << peer.address << " is there twice";
    ordered.splice(ordered.end(), members_, member);
  }
  bool any = false;
  for (Member& member : members_) {
    if (std::exchange(member.leaving, true)) continue;
    any = true;
    leave(*member.client);
    TANDEM_LOG(kInfo) << PeerLine("peer_leaving", kind_, member.peer)
                             .Add("sequences", member.client->sequences());
  }
  ordered.splice(ordered.end(), members_);
  members_.swap(ordered);
  return any;
}

template <typename Client, typename Health, typename Notes>
typename PeerSet<Client, Health, Notes>::Members PeerSet<Client, Health, Notes>::TakeLeft() {
  Members left;
  for (auto next = members_.begin(); next != members_.end();) {
    const auto member = next++;
    if (!member->leaving || member->client->sequences() > 0) continue;
    TANDEM_LOG(kInfo) << PeerLine("peer_left", kind_, member->peer);
    left.splice(left.end(), members_, member);
  }
  return left;
}

template <typename Client, typename Health, typename Notes>
std::vector<v1::Peer> PeerSet<Client, Health, Notes>::Describe(concurrency::Instant now) const {
  std::vector<v1::Peer> peers;
  peers.reserve(members_.size());
  for (const Member& member : members_) {
    v1::Peer& peer = peers.emplace_back(member.client->Describe());
    peer.set_leaving(member.leaving);
    peer.set_ejected(member.health.Ejected(now));
    peer.set_ejections(member.health.ejections());
  }
  return peers;
}

}  // namespace tandem::orchestrator
