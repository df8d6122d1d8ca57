#include "common/scheduling/fair_share.h"

#include <algorithm>
#include <limits>

#include "common/base/check.h"

namespace tandem::scheduling {

// One call of Pick.
struct FairShare::Pass {
  struct Left {
    int divisible = 0;
    int indivisible = 0;
    int granted = 0;
    int total() const { return divisible + indivisible; }
  };

  absl::Span<const Item> waiting;
  std::vector<Left> left;
  std::vector<size_t> order;  // of the first rows of each item
  int rows_left = 0;          // below 0: the items that are sure took more
  int max_left = 0;
  size_t sure_items = 1;

  // `rows` of an indivisible item may be taken.
  bool Fits(int rows) const {
    if (rows <= rows_left) return true;
    return order.size() < sure_items && rows <= max_left;
  }
};

FairShare::FairShare(int quantum) : quantum_(quantum) { TANDEM_CHECK(quantum >= 1); }

// Those that wait get a place; those that do not lose theirs.
void FairShare::Arrive(const Pass& pass) {
  for (auto& [id, group] : groups_) {
    group.waits = false;
    group.left = 0;
    group.min = 0;
    for (auto& [member_id, member] : group.members) member.waits = false;
  }
  for (size_t i = 0; i < pass.waiting.size(); ++i) {
    const Item& item = pass.waiting[i];
    TANDEM_CHECK(item.total() >= 1 && item.divisible >= 0 && item.indivisible >= 0 &&
                 item.weight >= 1)
        << item.divisible << " and " << item.indivisible << " rows of weight " << item.weight;
    auto [group, new_group] = groups_.try_emplace(item.group);
    if (new_group) ring_.push_back(item.group);
    auto [member, new_member] = group->second.members.try_emplace(item.member);
    if (new_member) group->second.ring.push_back(item.member);
    TANDEM_CHECK(!member->second.waits) << "two items of member " << item.member;
    group->second.waits = true;
    group->second.left += 1;
    member->second.waits = true;
    member->second.index = i;
  }
  std::erase_if(ring_, [this](uint64_t id) { return !groups_.at(id).waits; });
  absl::erase_if(groups_, [](const auto& entry) { return !entry.second.waits; });
  for (auto& [id, group] : groups_) {
    auto& members = group.members;
    std::erase_if(group.ring, [&members](uint64_t id) { return !members.at(id).waits; });
    absl::erase_if(members, [](const auto& entry) { return !entry.second.waits; });
  }
}

int FairShare::WeightOf(const Member& member, const Pass& pass) {
  return pass.waiting[member.index].weight;
}

// Rows that a member takes at once: what it can pay of what is divisible, or all of what is not.
int FairShare::NextPiece(const Member& member, const Pass& pass) const {
  const Pass::Left& left = pass.left[member.index];
  if (left.divisible == 0) return left.indivisible;
  return static_cast<int>(std::clamp<int64_t>(member.deficit, 1, left.divisible));
}

FairShare::Member& FairShare::NextMember(Group& group, const Pass& pass) {
  while (true) {
    Member& member = group.members.at(group.ring.front());
    if (pass.left[member.index].total() > 0) {
      if (!member.running) {
        member.deficit += int64_t{quantum_} * WeightOf(member, pass);
        member.running = true;
      }
      if (member.deficit >= NextPiece(member, pass)) return member;
    }
    member.running = false;
    group.ring.push_back(group.ring.front());
    group.ring.pop_front();
  }
}

// Rows that some member could take at once, at least. Members take turns only when the group can
// pay for them: whose turn comes next must not be decided among those that are left over from this
// pass.
int FairShare::MinPiece(const Group& group, const Pass& pass) const {
  int min = std::numeric_limits<int>::max();
  for (const auto& [id, member] : group.members) {
    const Pass::Left& left = pass.left[member.index];
    if (left.total() == 0) continue;
    min = std::min(min, left.divisible > 0 ? 1 : left.indivisible);
  }
  return min;
}

// False: its next piece does not fit into what is left of the pass.
bool FairShare::TakeTurn(Group& group, Pass& pass) {
  if (!group.running) {
    group.deficit += quantum_;
    group.running = true;
  }
  while (group.left > 0) {
    if (group.min == 0) group.min = MinPiece(group, pass);
    if (group.deficit < group.min) break;
    if (!pass.Fits(group.min)) return false;

    Member& member = NextMember(group, pass);
    Pass::Left& left = pass.left[member.index];
    int rows = NextPiece(member, pass);
    const bool cut = left.divisible > 0;
    if (cut) rows = static_cast<int>(std::min<int64_t>({rows, group.deficit, pass.rows_left}));
    if (group.deficit < rows) break;
    if (rows <= 0 || !pass.Fits(rows)) return false;

    if (left.granted == 0) pass.order.push_back(member.index);
    left.granted += rows;
    (cut ? left.divisible : left.indivisible) -= rows;
    pass.rows_left -= rows;
    pass.max_left -= rows;
    group.deficit -= rows;
    member.deficit -= rows;
    if (left.divisible > 0) continue;
    group.min = 0;
    if (left.total() > 0) continue;
    // Its next item may wait when the next pass is formed, and then what is left of the deficit
    // counts. But a member takes one item a pass, and must not gather what it could not have spent.
    member.deficit =
        std::min<int64_t>(member.deficit, std::max(rows, quantum_ * WeightOf(member, pass)) - 1);
    group.left -= 1;
  }
  if (group.left == 0) group.deficit = 0;
  group.running = false;
  return true;
}

std::vector<FairShare::Grant> FairShare::Pick(absl::Span<const Item> waiting, int rows,
                                              size_t sure_items, int max_rows) {
  Pass pass;
  pass.waiting = waiting;
  pass.rows_left = std::min(rows, max_rows);
  pass.max_left = max_rows;
  pass.sure_items = rows > 0 ? sure_items : 0;
  pass.left.reserve(waiting.size());
  for (const Item& item : waiting) pass.left.push_back({item.divisible, item.indivisible, 0});
  Arrive(pass);

  std::deque<uint64_t> full;  // groups whose next piece does not fit; the first of the next pass
  size_t with_work = ring_.size();
  while (with_work > 0 && (pass.rows_left > 0 || pass.order.size() < pass.sure_items)) {
    const uint64_t id = ring_.front();
    Group& group = groups_.at(id);
    ring_.pop_front();
    if (group.full) {
      group.deficit += quantum_;  // others fill the pass, but its turns are not lost
    } else if (group.left > 0) {
      group.full = !TakeTurn(group, pass);
      if (group.full) full.push_back(id);
      if (group.full || group.left == 0) --with_work;
    }
    ring_.push_back(id);
  }
  if (!full.empty()) {
    std::erase_if(ring_, [this](uint64_t id) { return groups_.at(id).full; });
    ring_.insert(ring_.begin(), full.begin(), full.end());
    for (uint64_t id : full) groups_.at(id).full = false;
  }

  std::vector<Grant> grants;
  grants.reserve(pass.order.size());
  for (size_t index : pass.order) grants.push_back({index, pass.left[index].granted});
  return grants;
}

}  // namespace tandem::scheduling
