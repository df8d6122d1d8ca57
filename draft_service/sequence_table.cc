#include "draft_service/sequence_table.h"

#include "common/base/check.h"

namespace tandem::draft_service {

void SequenceTable::AddStream(StreamId id, std::shared_ptr<BlockSink> sink,
                              const std::string& client_id) {
  Client& client = clients_[client_id];
  if (client.streams++ == 0) client.group = ++last_group_;
  auto stream = std::make_unique<Stream>();
  stream->sink = std::move(sink);
  stream->group = client.group;
  stream->client_id = client_id;
  streams_[id] = std::move(stream);
}

Stream* SequenceTable::FindStream(StreamId id) {
  auto it = streams_.find(id);
  return it == streams_.end() ? nullptr : it->second.get();
}

void SequenceTable::EraseStream(StreamId id) {
  auto stream = streams_.find(id);
  if (stream == streams_.end()) return;
  TANDEM_CHECK(stream->second->sequences.empty());
  auto client = clients_.find(stream->second->client_id);
  if (--client->second.streams == 0) clients_.erase(client);
  streams_.erase(stream);
  finishing_.erase(id);
}

std::vector<StreamId> SequenceTable::FinishedStreams() const {
  std::vector<StreamId> finished;
  for (StreamId id : finishing_) {
    if (streams_.at(id)->unanswered == 0) finished.push_back(id);
  }
  return finished;
}

std::vector<StreamId> SequenceTable::IdleStreams() const {
  std::vector<StreamId> idle;
  for (const auto& [id, stream] : streams_) {
    if (stream->unanswered == 0) idle.push_back(id);
  }
  return idle;
}

std::vector<StreamId> SequenceTable::AllStreams() const {
  std::vector<StreamId> all;
  for (const auto& [id, stream] : streams_) all.push_back(id);
  return all;
}

void SequenceTable::MarkFinishing(StreamId id) {
  if (streams_.contains(id)) finishing_.insert(id);
}

Sequence* SequenceTable::Find(StreamId stream, uint64_t name) {
  auto it = sequences_.find({stream, name});
  return it == sequences_.end() ? nullptr : it->second.get();
}

Sequence& SequenceTable::Add(StreamId stream, uint64_t name) {
  auto sequence = std::make_unique<Sequence>();
  sequence->stream = stream;
  sequence->name = name;
  sequence->id = ++last_id_;
  const auto [it, is_new] = sequences_.try_emplace({stream, name}, std::move(sequence));
  TANDEM_CHECK(is_new) << "sequence " << name << " is open already";
  streams_.at(stream)->sequences.insert(name);
  ++live_;
  return *it->second;
}

void SequenceTable::Erase(Sequence& sequence) {
  if (!sequence.problem.has_value()) --live_;
  streams_.at(sequence.stream)->sequences.erase(sequence.name);
  const std::pair<StreamId, uint64_t> key(sequence.stream, sequence.name);
  sequences_.erase(key);
}

void SequenceTable::SetProblem(Sequence& sequence, messages::Refusal problem) {
  if (!sequence.problem.has_value()) --live_;
  sequence.problem = std::move(problem);
  sequence.drafter = nullptr;
}

}  // namespace tandem::draft_service
