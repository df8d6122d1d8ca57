#include "orchestrator/verify/target_set.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "orchestrator/verify/target_pace.h"
#include "orchestrator/verify/verify_wire.h"

namespace tandem::orchestrator {
namespace {

constexpr absl::string_view kNoAddress = "no address of a target is known yet";

}  // namespace

TargetSet::TargetSet(absl::Duration ejection_min, absl::Duration ejection_max, uint64_t seed)
    : peers_("target", [=](const std::shared_ptr<VerifyClient>& client, uint64_t member_id) {
        return TargetHealth(client->pace(), Ejection(ejection_min, ejection_max, seed + member_id));
      }) {}

TargetSet::Peers::News TargetSet::Compare(const PeerList& list) {
  problems_ = list.problems;
  // The stream of one that returns may just have broken.
  Peers::News news = peers_.Compare(list, [](VerifyClient& client) { return client.Reopen(true); });
  closing_.insert(closing_.end(), news.replaced.begin(), news.replaced.end());
  return news;
}

bool TargetSet::Arrange(const PeerList& list, const std::vector<PeerAddress>& fresh, Clients made) {
  return peers_.Arrange(list, fresh, std::move(made),
                        [](VerifyClient& client) { client.Reopen(false); });
}

TargetSet::Left TargetSet::TakeLeft() {
  Left left;
  for (const Target& target : peers_.TakeLeft()) {
    if (auto welcome = target.client->welcome()) last_welcome_ = std::move(welcome);
    left.to_close.push_back(target.client);
  }
  closing_.insert(closing_.end(), left.to_close.begin(), left.to_close.end());
  const auto ended = std::partition(closing_.begin(), closing_.end(),
                                    [](const auto& client) { return !client->ended(); });
  std::move(ended, closing_.end(), std::back_inserter(left.forgotten));
  closing_.erase(ended, closing_.end());
  return left;
}

TargetSet::Target* TargetSet::Of(base::Incarnation incarnation) {
  for (Target& target : peers_) {
    if (target.notes.incarnation() == incarnation) return &target;
  }
  return nullptr;
}

std::vector<TargetView> TargetSet::Views(concurrency::Instant now, absl::Duration retry_after) {
  std::vector<TargetView> views;
  for (Target& target : peers_) {
    std::optional<TargetInfo> info = target.client->info();
    if (!info.has_value()) continue;
    if (target.notes.Follow(info->incarnation)) target.health.StreamBegan(now);
    target.notes.LetOneTry(now, now + retry_after);
    target.health.Look();
    const uint64_t queued_rows = info->pace->QueuedRows(now);
    views.push_back(
        {target.client.get(), &target.notes, *std::move(info), target.leaving, queued_rows,
         target.client->sequences(),
         target.health.Ejected(now) ? target.health.until() : concurrency::Instant::InfinitePast(),
         /*kept=*/false});
  }
  return views;
}

absl::Status TargetSet::Ready() const {
  std::vector<std::string> problems;
  bool none_fits = true;
  for (const Target& target : peers_) {
    absl::Status ready = target.client->Ready();
    if (ready.ok()) return ready;
    problems.emplace_back(ready.message());
    none_fits = none_fits && ready.code() == absl::StatusCode::kFailedPrecondition;
  }
  problems.insert(problems.end(), problems_.begin(), problems_.end());
  none_fits = none_fits && !problems.empty() && problems_.empty();
  if (problems.empty()) problems.emplace_back(kNoAddress);
  const std::string all = absl::StrJoin(problems, "; ");
  return none_fits ? absl::FailedPreconditionError(all) : absl::UnavailableError(all);
}

SeekResult TargetSet::WhyNot(const std::string& model_id) const {
  SeekResult result;
  std::vector<std::string> reasons;
  bool any_up = false;
  bool any_may_fit = !problems_.empty();
  for (const Target& target : peers_) {
    const absl::Status ready = target.client->Ready();
    const std::optional<v1::Welcome> welcome = target.client->welcome();
    const bool other = welcome.has_value() && !model_id.empty() && welcome->model_id() != model_id;
    any_may_fit = any_may_fit || !other;
    any_up = any_up || ready.ok();
    if (ready.ok() && !other) {
      result.kind = SeekResult::Kind::kNoSlot;
      return result;
    }
    reasons.push_back(ready.ok() ? absl::StrCat("target ", Called(target.peer), " has model ",
                                                welcome->model_id())
                                 : std::string(ready.message()));
  }
  reasons.insert(reasons.end(), problems_.begin(), problems_.end());
  if (reasons.empty()) reasons.emplace_back(kNoAddress);
  result.kind = any_up && !any_may_fit ? SeekResult::Kind::kUnfit : SeekResult::Kind::kNoTarget;
  result.reason = absl::StrJoin(reasons, "; ");
  return result;
}

std::optional<v1::Welcome> TargetSet::welcome() const {
  std::optional<v1::Welcome> first;
  for (const Target& target : peers_) {
    std::optional<v1::Welcome> welcome = target.client->welcome();
    if (target.client->Ready().ok()) return welcome;
    if (!first.has_value()) first = std::move(welcome);
  }
  return first.has_value() ? first : last_welcome_;
}

uint32_t TargetSet::MaxLength(const std::string& model_id) const {
  uint32_t longest = 0;
  const auto add = [&](const std::optional<v1::Welcome>& welcome) {
    if (!welcome.has_value() || welcome->model_id() != model_id) return;
    longest = std::max(longest, MaxSequenceLength(welcome->limits()));
  };
  for (const Target& target : peers_) add(target.client->welcome());
  if (longest == 0) add(last_welcome_);
  return longest;
}

TargetSet::Clients TargetSet::clients() const {
  Clients clients;
  clients.reserve(peers_.size());
  for (const Target& target : peers_) clients.push_back(target.client);
  return clients;
}

}  // namespace tandem::orchestrator
