#include "draft_service/sequences/sequence_table.h"

#include <algorithm>

#include "common/base/check.h"

namespace tandem::draft_service {

Sequence* SequenceTable::Find(StreamId stream, SequenceId name) {
  const auto it = sequences_.find({stream, name});
  return it == sequences_.end() ? nullptr : &it->second;
}

Sequence* SequenceTable::AnyOf(StreamId stream) {
  const auto it = sequences_.lower_bound({stream, SequenceId()});
  return it == sequences_.end() || it->first.first != stream ? nullptr : &it->second;
}

Sequence& SequenceTable::Add(StreamId stream, SequenceId name, uint64_t group) {
  const auto [it, is_new] = sequences_.try_emplace({stream, name});
  TANDEM_CHECK(is_new) << "sequence " << name << " is open already";
  Sequence& sequence = it->second;
  sequence.stream = stream;
  sequence.name = name;
  sequence.id = ++last_id_;
  sequence.group = group;
  ++live_;
  ++groups_[group].live;
  ++groups_[group].size;
  return sequence;
}

void SequenceTable::Erase(const Sequence& sequence) {
  const auto group = groups_.find(sequence.group);
  if (!sequence.problem.has_value()) {
    --live_;
    --group->second.live;
  }
  if (--group->second.size == 0) groups_.erase(group);
  const std::pair<StreamId, SequenceId> key(sequence.stream, sequence.name);
  sequences_.erase(key);
}

void SequenceTable::SetProblem(Sequence& sequence, messages::Refusal problem) {
  if (!sequence.problem.has_value()) {
    --live_;
    --groups_.at(sequence.group).live;
  }
  sequence.problem = std::move(problem);
  sequence.drafter = nullptr;
  sequence.base.reset();
}

size_t SequenceTable::size(uint64_t group) const {
  const auto it = groups_.find(group);
  return it == groups_.end() ? 0 : it->second.size;
}

size_t SequenceTable::live(uint64_t group) const {
  const auto it = groups_.find(group);
  return it == groups_.end() ? 0 : it->second.live;
}

size_t SequenceTable::live_groups() const {
  return static_cast<size_t>(std::count_if(
      groups_.begin(), groups_.end(), [](const auto& entry) { return entry.second.live > 0; }));
}

uint64_t SequenceTable::largest_group() const {
  TANDEM_CHECK(!groups_.empty());
  return std::max_element(
             groups_.begin(), groups_.end(),
             [](const auto& a, const auto& b) { return a.second.live < b.second.live; })
      ->first;
}

Sequence* SequenceTable::OldestIdle(uint64_t group) {
  Sequence* oldest = nullptr;
  for (auto& [key, sequence] : sequences_) {
    if (sequence.group != group || sequence.problem.has_value() ||
        sequence.unanswered.has_value()) {
      continue;
    }
    if (oldest == nullptr || sequence.id < oldest->id) oldest = &sequence;
  }
  return oldest;
}

}  // namespace tandem::draft_service
