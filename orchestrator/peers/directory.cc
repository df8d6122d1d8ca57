#include "orchestrator/peers/directory.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <optional>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/concurrency/mutex.h"
#include "common/concurrency/system_clock.h"
#include "common/random/random.h"
#include "orchestrator/peers/retry_delay.h"

namespace tandem::orchestrator {
namespace {

constexpr absl::Duration kSooner = absl::Milliseconds(500);
constexpr double kJitter = 0.1;

// Each address has one spelling, and addresses are ordered by number: 10.0.0.9 before 10.0.0.10.
struct Parsed {
  bool is_ipv4 = false;
  std::string bytes;  // empty: not understood, as one with a zone
  std::string text;

  friend bool operator<(const Parsed& a, const Parsed& b) {
    return std::tie(a.bytes, a.text) < std::tie(b.bytes, b.text);
  }
  friend bool operator==(const Parsed& a, const Parsed& b) { return a.text == b.text; }
};

Parsed Parse(const std::string& text) {
  in_addr ipv4;
  if (inet_pton(AF_INET, text.c_str(), &ipv4) == 1) {
    return {true, std::string(reinterpret_cast<const char*>(&ipv4), sizeof ipv4), text};
  }
  in6_addr ipv6;
  if (inet_pton(AF_INET6, text.c_str(), &ipv6) != 1) return {false, "", text};
  char written[INET6_ADDRSTRLEN];
  inet_ntop(AF_INET6, &ipv6, written, sizeof written);
  return {false, std::string(reinterpret_cast<const char*>(&ipv6), sizeof ipv6), written};
}

bool IsName(const std::string& host) {
  return host.find(':') == std::string::npos && !Parse(host).is_ipv4;
}

// The addresses of one family, in order.
std::vector<std::string> Usable(const std::vector<std::string>& found, uint16_t port) {
  std::vector<Parsed> parsed;
  parsed.reserve(found.size());
  for (const std::string& address : found) parsed.push_back(Parse(address));
  const auto is_ipv4 = [](const Parsed& address) { return address.is_ipv4; };
  if (std::any_of(parsed.begin(), parsed.end(), is_ipv4)) {
    std::erase_if(parsed, [](const Parsed& address) { return !address.is_ipv4; });
  }
  std::sort(parsed.begin(), parsed.end());
  parsed.erase(std::unique(parsed.begin(), parsed.end()), parsed.end());
  std::vector<std::string> usable;
  usable.reserve(parsed.size());
  for (const Parsed& address : parsed) {
    usable.push_back(base::Address{address.text, port}.ToString());
  }
  return usable;
}

// Leaves out what is too much: of addresses that are not `known` the last ones, in their order.
// Returns how many.
size_t LeaveOut(std::vector<std::string>& addresses, const std::vector<std::string>& known) {
  const size_t all = addresses.size();
  if (all <= kMaxAddressesOfName) return 0;
  const std::set<std::string> before(known.begin(), known.end());
  std::set<std::string> chosen;
  for (const bool is_known : {true, false}) {
    for (const std::string& address : addresses) {
      if (chosen.size() == kMaxAddressesOfName) break;
      if (before.contains(address) == is_known) chosen.insert(address);
    }
  }
  std::erase_if(addresses, [&](const std::string& one) { return !chosen.contains(one); });
  return all - addresses.size();
}

struct Entry {
  Entry(base::Address address, absl::Duration every, uint64_t jitter_seed)
      : host(std::move(address.host)),
        port(address.port),
        name(base::Address{host, port}.ToString()),
        is_name(IsName(host)),
        seed(jitter_seed),
        sooner(std::min(kSooner, every), every, jitter_seed) {
    if (is_name) return;
    addresses = Usable({host}, port);
    name = addresses[0];
  }

  std::string host;
  uint16_t port;
  std::string name;
  bool is_name;
  uint64_t seed;
  RetryDelay sooner;
  uint32_t rounds = 0;

  std::vector<std::string> addresses;  // the last that were found
  size_t left_out = 0;                 // of those that were found
  std::string reason;                  // of the last lookup's failure; empty: it was none
  bool looking_up = false;
  bool due = false;
  concurrency::TimerId timer = 0;
};

}  // namespace

class Directory::State : public std::enable_shared_from_this<State> {
 public:
  State(DirectoryOptions options, concurrency::Timers& timers, Listener listener)
      : kind_(options.kind),
        every_(options.every),
        look_up_(std::move(options.look_up)),
        timers_(timers) {
    {
      concurrency::MutexLock calling(calls_);
      listener_ = std::move(listener);
    }
    concurrency::MutexLock lock(mutex_);
    for (base::Address& address : options.names) {
      entries_.emplace_back(std::move(address), every_, options.seed + entries_.size());
    }
  }

  void Start() {
    {
      concurrency::MutexLock calling(calls_);
      PeerList list;
      {
        concurrency::MutexLock lock(mutex_);
        list = Merged();
      }
      listener_(list);
    }
    concurrency::MutexLock lock(mutex_);
    threads_.resize(entries_.size());
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (!entries_[i].is_name) continue;
      threads_[i] = std::thread([self = shared_from_this(), i, host = entries_[i].host] {
        concurrency::NameThisThread(absl::StrCat("names-", self->kind_));
        self->Run(i, host);
      });
    }
  }

  void Stop() {
    std::vector<std::thread> ending;
    {
      concurrency::MutexLock lock(mutex_);
      closing_ = true;
      for (size_t i = 0; i < entries_.size(); ++i) {
        if (!threads_[i].joinable()) continue;
        if (entries_[i].timer != 0) timers_.Cancel(entries_[i].timer);
        // A thread that looks up uses only this state and what the lookup itself holds.
        if (entries_[i].looking_up) {
          threads_[i].detach();
        } else {
          ending.push_back(std::move(threads_[i]));
        }
      }
      changed_.NotifyAll();
    }
    for (std::thread& thread : ending) thread.join();
    // What the listener holds must not wait for a lookup, either.
    concurrency::MutexLock calling(calls_);
    listener_ = nullptr;
  }

 private:
  void Run(size_t i, const std::string& host) {
    while (Begin(i)) {
      const absl::StatusOr<std::vector<std::string>> found = look_up_(host);
      if (!found.ok()) {
        Ended(i, {}, std::string(found.status().message()));
      } else {
        Ended(i, *found, found->empty() ? absl::StrCat(host, " has no address") : "");
      }
    }
  }

  // Waits until a lookup is due; false when there is to be none.
  bool Begin(size_t i) {
    concurrency::MutexLock lock(mutex_);
    Entry& entry = entries_[i];
    while (!closing_ && entry.timer != 0 && !entry.due) changed_.Wait(mutex_);
    if (closing_) return false;
    entry.due = false;
    entry.looking_up = true;
    return true;
  }

  void Ended(size_t i, const std::vector<std::string>& found, const std::string& reason) {
    {
      // From here on the destructor waits for this thread.
      concurrency::MutexLock lock(mutex_);
      if (closing_) return;
      entries_[i].looking_up = false;
    }
    concurrency::MutexLock calling(calls_);
    std::optional<base::LogFields> event;
    bool is_well = false;
    PeerList list;
    {
      concurrency::MutexLock lock(mutex_);
      event = Take(entries_[i], found, reason);
      is_well = reason.empty() && entries_[i].left_out == 0;
      list = Merged();
    }
    if (event.has_value() && is_well) TANDEM_LOG(kInfo) << *event;
    if (event.has_value() && !is_well) TANDEM_LOG(kWarning) << *event;
    listener_(list);
    concurrency::MutexLock lock(mutex_);
    if (!closing_) SetTimer(i);
  }

  // Returns a log line if there is news.
  std::optional<base::LogFields> Take(Entry& entry, const std::vector<std::string>& found,
                                      const std::string& reason) TANDEM_REQUIRES(mutex_) {
    const bool other_reason = entry.reason != reason;
    entry.reason = reason;
    if (!reason.empty()) {
      if (!other_reason) return std::nullopt;
      return base::LogFields("name_lost")
          .Add("name", entry.name)
          .Add("kind", kind_)
          .Add("reason", reason);
    }
    std::vector<std::string> addresses = Usable(found, entry.port);
    const size_t left_out = LeaveOut(addresses, entry.addresses);
    const bool more_or_less = (left_out > 0) != (std::exchange(entry.left_out, left_out) > 0);
    if (!other_reason && !more_or_less && addresses == entry.addresses) return std::nullopt;
    entry.addresses = std::move(addresses);
    base::LogFields event("name_resolved");
    event.Add("name", entry.name)
        .Add("kind", kind_)
        .Add("addresses", absl::StrJoin(entry.addresses, ","));
    if (left_out > 0) event.Add("left_out", left_out).Add("max_addresses", kMaxAddressesOfName);
    return event;
  }

  void SetTimer(size_t i) TANDEM_REQUIRES(mutex_) {
    Entry& entry = entries_[i];
    absl::Duration delay;
    if (entry.addresses.empty()) {
      delay = entry.sooner.Next();
    } else {
      const double uniform =
          random::Uniform({entry.seed, 1, entry.rounds++}, 0, random::Purpose::kUser);
      delay = every_ * (1 + kJitter * (2 * uniform - 1));
    }
    entry.timer = timers_.After(delay, [self = shared_from_this(), i] {
      concurrency::MutexLock lock(self->mutex_);
      self->entries_[i].due = true;
      self->changed_.NotifyAll();
    });
  }

  PeerList Merged() const TANDEM_REQUIRES(mutex_) {
    PeerList list;
    std::set<std::string> seen;
    for (const Entry& entry : entries_) {
      for (const std::string& address : entry.addresses) {
        if (seen.insert(address).second) list.peers.push_back({address, entry.name});
      }
      if (!entry.addresses.empty()) continue;
      list.problems.push_back(entry.reason.empty()
                                  ? absl::StrCat(kind_, " ", entry.name, " is being looked up")
                                  : absl::StrCat(kind_, " ", entry.name, ": ", entry.reason));
    }
    return list;
  }

  const std::string kind_;
  const absl::Duration every_;
  const LookUp look_up_;
  concurrency::Timers& timers_;

  concurrency::Mutex calls_;  // held while the listener is called; before mutex_
  Listener listener_ TANDEM_GUARDED_BY(calls_);
  concurrency::Mutex mutex_;
  concurrency::CondVar changed_;
  bool closing_ TANDEM_GUARDED_BY(mutex_) = false;
  std::vector<Entry> entries_ TANDEM_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ TANDEM_GUARDED_BY(mutex_);  // by entry; none for addresses
};

Directory::Directory(DirectoryOptions options, concurrency::Timers& timers, Listener listener)
    : state_(std::make_shared<State>(std::move(options), timers, std::move(listener))) {
  state_->Start();
}

Directory::~Directory() { state_->Stop(); }

}  // namespace tandem::orchestrator
