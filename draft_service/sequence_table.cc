#include "draft_service/sequence_table.h"

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

Sequence& SequenceTable::Add(StreamId stream, SequenceId name) {
  const auto [it, is_new] = sequences_.try_emplace({stream, name});
  TANDEM_CHECK(is_new) << "sequence " << name << " is open already";
  Sequence& sequence = it->second;
  sequence.stream = stream;
  sequence.name = name;
  sequence.id = ++last_id_;
  ++live_;
  return sequence;
}

void SequenceTable::Erase(const Sequence& sequence) {
  if (!sequence.problem.has_value()) --live_;
  const std::pair<StreamId, SequenceId> key(sequence.stream, sequence.name);
  sequences_.erase(key);
}

void SequenceTable::SetProblem(Sequence& sequence, messages::Refusal problem) {
  if (!sequence.problem.has_value()) --live_;
  sequence.problem = std::move(problem);
  sequence.drafter = nullptr;
}

}  // namespace tandem::draft_service
