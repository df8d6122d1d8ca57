#include "orchestrator/verify/target_line.h"

#include <algorithm>
#include <utility>

#include "common/messages/handshake.h"

namespace tandem::orchestrator {

TargetLine::TargetLine(uint64_t seed)
    : chooser_(seed),
      // Above the numbers of an older process with the same client id, whose sequences may linger.
      last_sequence_{messages::NextIncarnation()} {}

uint64_t TargetLine::Add(std::shared_ptr<VerifyEvents> events, SessionNeeds needs) {
  const uint64_t id = ++last_session_;
  Session& session = sessions_[id];
  session.events = std::move(events);
  session.needs = std::move(needs);
  return id;
}

std::shared_ptr<VerifyEvents> TargetLine::Remove(uint64_t id) {
  auto it = sessions_.find(id);
  std::shared_ptr<VerifyEvents> events = std::move(it->second.events);
  sessions_.erase(it);
  return events;
}

// A session that a target has just refused has had its turn for nothing.
void TargetLine::Join(uint64_t id) {
  const Session& session = sessions_.at(id);
  if (session.parked != nullptr) {
    line_.JoinAgain(id, session.needs.priority, session.needs.client);
  } else {
    line_.Join(id, session.needs.priority, session.needs.client);
  }
}

bool TargetLine::Leave(uint64_t id) {
  Session& session = sessions_.at(id);
  if (session.parked != nullptr) left_.push_back(std::move(session.parked));
  offers_.erase(id);
  return line_.Leave(id, /*had_turn=*/false);
}

TargetLine::EventsList TargetLine::All() const {
  EventsList all;
  all.reserve(line_.size());
  for (uint64_t id : line_.InOrder()) all.push_back(sessions_.at(id).events);
  return all;
}

TargetLine::EventsList TargetLine::Serve(std::vector<TargetView>& views, concurrency::Instant now,
                                         concurrency::Instant next) {
  EventsList served;
  for (TargetView& view : views) KeepForAsker(view);
  const auto any_open = [&views] {
    return std::any_of(views.begin(), views.end(),
                       [](const TargetView& view) { return view.slots->may_take() && !view.kept; });
  };
  if (!any_open()) return served;
  for (uint64_t id : line_.InOrder()) {
    Session& session = sessions_.at(id);
    if (Assign(id, session, views, now, next)) {
      served.push_back(session.events);
      line_.Leave(id, /*had_turn=*/true);
    }
    if (!any_open()) break;
  }
  return served;
}

void TargetLine::KeepForAsker(TargetView& view) {
  const uint64_t id = view.slots->asker();
  if (id == 0) return;
  const auto asker = sessions_.find(id);
  const Link* link = asker == sessions_.end() ? nullptr : asker->second.link.get();
  view.kept = link != nullptr && link->incarnation() == view.info.incarnation && !link->taken();
  if (!view.kept) view.slots->SetAsker(0);
}

bool TargetLine::Assign(uint64_t id, Session& session, std::vector<TargetView>& views,
                        concurrency::Instant now, concurrency::Instant next) {
  TargetSearch search(session.needs, session.past, views, now);
  while (TargetView* view = search.Next(chooser_)) {
    if (OpenAt(*view, session)) return true;
  }
  TargetView* const view = search.ToWaitFor();
  if (view == nullptr) return false;
  view->kept = true;
  if (!view->slots->may_ask(now)) return false;
  if (!OpenAt(*view, session)) return false;
  view->slots->AskFrom(next);
  view->slots->SetAsker(id);
  return true;
}

bool TargetLine::OpenAt(TargetView& view, Session& session) {
  std::shared_ptr<Link>& parked = session.parked;
  if (parked != nullptr && parked->incarnation() == view.info.incarnation && parked->alive()) {
    parked->Unpark();
    session.link = std::move(parked);
    session.sequence = session.link->sequence();
  } else {
    if (!session.sequence.has_value()) session.sequence = base::Advance(last_sequence_);
    session.link = view.client->Open(view.info.incarnation, *session.sequence, session.events);
    if (session.link == nullptr) return false;
    if (parked != nullptr) left_.push_back(std::move(parked));
  }
  session.target = view.info;
  if (session.needs.model_id.empty()) session.needs.model_id = view.info.model_id;
  if (session.needs.numerics_id.empty()) session.needs.numerics_id = view.info.numerics_id;
  ++view.sequences;
  view.slots->Took(RoomAt(view.info, session.needs.length, session.needs.max_nodes));
  return true;
}

void TargetLine::Offer(uint64_t id) {
  if (sessions_.at(id).link != nullptr) offers_.insert(id);
}

TargetLine::EventsList TargetLine::TakeOffers() {
  EventsList wanted;
  while (!offers_.empty() && wanted.size() < line_.size()) {
    wanted.push_back(sessions_.at(offers_.extract(offers_.begin()).value()).events);
  }
  return wanted;
}

std::vector<std::shared_ptr<TargetLine::Link>> TargetLine::TakeLeft() {
  return std::exchange(left_, {});
}

}  // namespace tandem::orchestrator
