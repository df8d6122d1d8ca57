// How a TargetPool serves its line.
#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "orchestrator/verify/target_pace.h"
#include "orchestrator/verify/target_pool.h"

namespace tandem::orchestrator {
namespace {

// Without the others, if there is any such.
template <typename T, typename Good>
void Prefer(std::vector<T>& all, Good good) {
  if (std::any_of(all.begin(), all.end(), good)) std::erase_if(all, std::not_fn(good));
}

}  // namespace

std::vector<TargetPool::View> TargetPool::Views() {
  std::vector<View> views;
  const absl::Duration now = clock_.Now();
  for (Target& target : targets_) {
    std::optional<TargetInfo> info = target.client->info();
    if (!info.has_value()) continue;
    if (info->incarnation != target.incarnation) {
      // What an ejected target's old stream still brought to somebody ends nothing.
      if (target.ejection.Ejected(now)) target.good = target.client->pace()->good();
      target.incarnation = info->incarnation;
      target.draining = false;
      target.slots.reset();
    }
    if (target.slots == 0u && now >= target.full_until) {
      target.slots = 1;
      target.full_until = now + retry_after_;
    }
    CountGood(target);
    const uint64_t queued_rows = info->pace->QueuedRows(now);
    views.push_back(
        {&target, *std::move(info), queued_rows, target.client->sequences(),
         target.ejection.Ejected(now) ? target.ejection.until() : absl::ZeroDuration()});
  }
  return views;
}

TargetPool::EventsList TargetPool::Serve() {
  EventsList told;
  if (line_.empty()) return told;
  std::vector<View> views = Views();
  const auto open = [](const View& view) { return view.target->slots != 0u; };
  for (auto place = line_.begin(); place != line_.end();) {
    if (std::none_of(views.begin(), views.end(), open)) break;
    SessionState& session = sessions_.at(place->second);
    if (TakeSeat(session, views)) {
      told.push_back(session.events);
      place = line_.erase(place);
    } else {
      ++place;
    }
  }
  if (!line_.empty() && !views.empty() && !timer_set_) {
    timer_set_ = true;
    timers_.After(retry_after_, [weak = weak_from_this()] {
      if (auto self = weak.lock()) self->OnTimer();
    });
  }
  return told;
}

bool TargetPool::TakeSeat(SessionState& session, std::vector<View>& views) {
  // Lower is better; only those of the best rank are compared by load.
  const auto rank = [&session](const View& view) {
    const std::string& numerics = session.needs.numerics_id;
    return std::make_tuple(view.ejected_until, view.info.incarnation == session.failed,
                           !numerics.empty() && view.info.numerics_id != numerics);
  };
  std::vector<View*> fitting;
  for (View& view : views) {
    const std::string& model = session.needs.model_id;
    if (model.empty() || view.info.model_id == model) fitting.push_back(&view);
  }
  Prefer(fitting,
         [](const View* view) { return !view->target->draining && !view->target->leaving; });
  Prefer(fitting, [](const View* view) { return view->ejected_until == absl::ZeroDuration(); });
  std::erase_if(fitting, [&](const View* view) {
    const bool too_small =
        view->info.incarnation == session.small && clock_.Now() < session.small_until;
    return view->target->slots == 0u || too_small;
  });
  while (!fitting.empty()) {
    auto best =
        rank(**std::min_element(fitting.begin(), fitting.end(),
                                [&](const View* a, const View* b) { return rank(*a) < rank(*b); }));
    std::vector<View*> equal;
    std::copy_if(fitting.begin(), fitting.end(), std::back_inserter(equal),
                 [&](const View* view) { return rank(*view) == best; });
    const size_t chosen = chooser_.Choose(equal.size(), [&](size_t a, size_t b) {
      return std::tie(equal[a]->queued_rows, equal[a]->sequences) <
             std::tie(equal[b]->queued_rows, equal[b]->sequences);
    });
    View* view = equal[chosen];
    session.link = view->target->client->Open(view->info.incarnation, session.events);
    if (session.link == nullptr) {  // its stream has just ended
      std::erase(fitting, view);
      continue;
    }
    session.target = view->info;
    if (session.needs.model_id.empty()) session.needs.model_id = view->info.model_id;
    if (session.needs.numerics_id.empty()) session.needs.numerics_id = view->info.numerics_id;
    ++view->sequences;
    if (view->target->slots.has_value()) --*view->target->slots;
    return true;
  }
  return false;
}

Seat TargetPool::WhyNot(const SessionState& session) {
  Seat seat;
  const std::string& model = session.needs.model_id;
  std::vector<std::string> reasons;
  bool any_up = false;
  bool any_may_fit = !problems_.empty();
  for (const Target& target : targets_) {
    const absl::Status ready = target.client->Ready();
    const std::optional<v1::Welcome> welcome = target.client->welcome();
    const bool other = welcome.has_value() && !model.empty() && welcome->model_id() != model;
    any_may_fit = any_may_fit || !other;
    any_up = any_up || ready.ok();
    if (ready.ok() && !other) {
      seat.kind = Seat::Kind::kNoSlot;
      return seat;
    }
    reasons.push_back(ready.ok() ? absl::StrCat("target ", Called(target.client->target()),
                                                " has model ", welcome->model_id())
                                 : std::string(ready.message()));
  }
  reasons.insert(reasons.end(), problems_.begin(), problems_.end());
  if (reasons.empty()) reasons.emplace_back(kNoAddress);
  seat.kind = any_up && !any_may_fit ? Seat::Kind::kUnfit : Seat::Kind::kNoTarget;
  seat.reason = absl::StrJoin(reasons, "; ");
  return seat;
}

TargetPool::EventsList TargetPool::AllInLine() const {
  EventsList all;
  all.reserve(line_.size());
  for (const Place& place : line_) all.push_back(sessions_.at(place.second).events);
  return all;
}

TargetPool::Target* TargetPool::Of(uint64_t incarnation) {
  for (Target& target : targets_) {
    if (target.incarnation == incarnation) return &target;
  }
  return nullptr;
}

}  // namespace tandem::orchestrator
