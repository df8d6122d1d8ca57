#include "orchestrator/verify/target_search.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <tuple>

namespace tandem::orchestrator {
namespace {

// Keeps only the good ones, if there are any.
template <typename T, typename Good>
void Prefer(std::vector<T>& all, Good good) {
  if (std::any_of(all.begin(), all.end(), good)) std::erase_if(all, std::not_fn(good));
}

}  // namespace

TargetSearch::TargetSearch(const SessionNeeds& needs, const SessionPast& past,
                           std::vector<TargetView>& views, concurrency::Instant now)
    : needs_(needs), past_(past) {
  for (TargetView& view : views) {
    if (!needs.model_id.empty() && view.info.model_id != needs.model_id) continue;
    if (view.info.max_length > 0 && needs.length > view.info.max_length) continue;
    fitting_.push_back(&view);
  }
  Prefer(fitting_,
         [](const TargetView* view) { return !view->slots->draining() && !view->leaving; });
  Prefer(fitting_, [](const TargetView* view) {
    return view->ejected_until == concurrency::Instant::InfinitePast();
  });
  std::erase_if(fitting_,
                [](const TargetView* view) { return !view->slots->may_take() || view->kept; });
  const auto has_room = [&](const TargetView* view) {
    const bool too_small = view->info.incarnation == past.small && now < past.small_until;
    return !too_small &&
           view->slots->may_have_room(RoomAt(view->info, needs.length, needs.max_nodes));
  };
  const auto lacking = std::stable_partition(fitting_.begin(), fitting_.end(), has_room);
  lacking_.assign(lacking, fitting_.end());
  fitting_.erase(lacking, fitting_.end());
}

TargetView* TargetSearch::ToWaitFor() const {
  const auto better = [this](const TargetView* a, const TargetView* b) {
    const bool a_refused = a->info.incarnation == past_.small;
    const bool b_refused = b->info.incarnation == past_.small;
    return a_refused != b_refused ? a_refused : a->slots->room() > b->slots->room();
  };
  const auto best = std::min_element(lacking_.begin(), lacking_.end(), better);
  return best == lacking_.end() ? nullptr : *best;
}

TargetView* TargetSearch::Next(Chooser& chooser) {
  if (fitting_.empty()) return nullptr;
  // Lower is better; only those of the best rank are compared by load.
  const auto rank = [this](const TargetView& view) {
    const std::string& numerics = needs_.numerics_id;
    return std::make_tuple(view.ejected_until, view.info.incarnation == past_.failed,
                           !numerics.empty() && view.info.numerics_id != numerics);
  };
  const auto best = rank(**std::min_element(
      fitting_.begin(), fitting_.end(),
      [&](const TargetView* a, const TargetView* b) { return rank(*a) < rank(*b); }));
  std::vector<TargetView*> equal;
  std::copy_if(fitting_.begin(), fitting_.end(), std::back_inserter(equal),
               [&](const TargetView* view) { return rank(*view) == best; });
  TargetView* const chosen = equal[chooser.Choose(equal.size(), [&](size_t a, size_t b) {
    return std::tie(equal[a]->queued_rows, equal[a]->sequences) <
           std::tie(equal[b]->queued_rows, equal[b]->sequences);
  })];
  std::erase(fitting_, chosen);
  return chosen;
}

}  // namespace tandem::orchestrator
