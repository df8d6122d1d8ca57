// Looks up the names of peers at intervals, on threads of its own. So a pool grows when a replica
// comes and shrinks when one goes, and nobody has to tell the orchestrator.
//
// gRPC's own resolver looks a name up again only after a connection broke and some 30 s have
// passed. And it hides the addresses behind one channel, so nobody could choose among them by load
// or tell one model from another. So each address is a peer of its own here, with a channel and a
// Hello.
//
// - An entry that is an address (10.0.0.7:50052, [::1]:50052) is never looked up and always listed.
// - A name stands for its IPv4 addresses, or for its IPv6 addresses if it has no others. So a
//   machine with one of each is one peer and not two. An address that two entries have is one peer,
//   under the first entry.
// - A name stands for 256 addresses at most, for each one takes a connection and memory. Those that
//   are known already stay, and the log says how many are left out.
// - A lookup that fails or finds no address changes nothing. Name servers fail for a while, and a
//   headless Service without a ready pod has no address while the old pods may still serve.
// - A name that has never had an address is looked up again sooner, first after half a second. So
//   services that start together need not wait for each other's next lookup.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/address.h"
#include "common/concurrency/clock.h"
#include "orchestrator/peers/peer_address.h"
#include "orchestrator/peers/system_look_up.h"

namespace tandem::orchestrator {

// Returns the addresses of a host as texts ("10.0.0.7", "::1"), of both families, in any order. May
// take seconds. NOT_FOUND means that the host does not exist or has no address. UNAVAILABLE means
// that nobody answered. Messages name the host. It is called on several threads at a time, and may
// still run when the directory is gone.
using LookUp = std::function<absl::StatusOr<std::vector<std::string>>(const std::string& host)>;

inline constexpr size_t kMaxAddressesOfName = 256;

struct DirectoryOptions {
  absl::string_view kind;                   // "target" or "draft", for the log and for problems
  std::vector<base::Address> names;         // in the flag's order; none comes twice
  absl::Duration every = absl::Seconds(5);  // from a lookup's end to the next one, +-10 %
  LookUp look_up = SystemLookUp;
  uint64_t seed = 0;  // for the jitter
};

// Thread-safe. Each name has a thread.
class Directory {
 public:
  // Called after each lookup of a name, with all peers that are known, whether they changed or not.
  // Only one call is made at a time.
  using Listener = std::function<void(const PeerList& list)>;

  // The first call of the listener comes before the constructor returns, with the entries that are
  // addresses. All others come on the directory's threads; there are none if no entry is a name.
  // `timers` outlives this object.
  Directory(DirectoryOptions options, concurrency::Timers& timers, Listener listener);
  // No call of the listener is under way afterwards, and none follows. Lookups that still run are
  // not waited for (they take seconds if name servers are silent). Do not destroy it from the
  // listener.
  ~Directory();
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

 private:
  class State;
  const std::shared_ptr<State> state_;  // shared with threads whose lookup outlives this object
};

}  // namespace tandem::orchestrator
