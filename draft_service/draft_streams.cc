#include "draft_service/draft_streams.h"

#include <utility>

#include "common/base/check.h"

namespace tandem::draft_service {

DraftStreams::DraftStreams(const concurrency::Clock& clock, DraftObserver& observer,
                           std::function<v1::Load()> load)
    : clock_(clock), observer_(observer), load_(std::move(load)) {}

void DraftStreams::Begin(StreamId id, std::shared_ptr<BlockSink> sink,
                         const std::string& client_id) {
  Client& client = clients_[client_id];
  if (client.streams++ == 0) client.group = ++last_group_;
  streams_[id] = {.sink = std::move(sink), .group = client.group, .client_id = client_id};
}

void DraftStreams::Send(StreamId id, v1::Block block, EndedAdvance advance) {
  Stream& stream = streams_.at(id);
  TANDEM_CHECK(stream.owed > 0) << "a second answer to an Advance";
  --stream.owed;
  advance.status = block.status();
  advance.drafted = static_cast<uint32_t>(block.tokens_size());
  advance.ended = clock_.Now();
  block.set_computed_us(static_cast<uint64_t>(absl::ToInt64Microseconds(advance.computed)));
  block.set_queued_us(static_cast<uint64_t>(absl::ToInt64Microseconds(advance.queued())));
  observer_.OnEnded(advance);  // before the Block: who has that finds its span
  *block.mutable_load() = load_();
  v1::DraftReply reply;
  *reply.mutable_block() = std::move(block);
  stream.sink->Send(std::move(reply));  // false: its end is on its way
}

void DraftStreams::Drop(EndedAdvance advance) {
  advance.ended = clock_.Now();
  observer_.OnEnded(advance);
}

void DraftStreams::MarkFinishing(StreamId id) {
  if (Has(id)) finishing_.insert(id);
}

std::vector<StreamId> DraftStreams::Finished() const {
  std::vector<StreamId> finished;
  for (StreamId id : finishing_) {
    if (streams_.at(id).owed == 0) finished.push_back(id);
  }
  return finished;
}

std::vector<StreamId> DraftStreams::Idle() const {
  std::vector<StreamId> idle;
  for (const auto& [id, stream] : streams_) {
    if (stream.owed == 0) idle.push_back(id);
  }
  return idle;
}

std::vector<StreamId> DraftStreams::All() const {
  std::vector<StreamId> all;
  for (const auto& [id, stream] : streams_) all.push_back(id);
  return all;
}

void DraftStreams::Erase(StreamId id) {
  const auto stream = streams_.find(id);
  TANDEM_CHECK(stream != streams_.end());
  const auto client = clients_.find(stream->second.client_id);
  if (--client->second.streams == 0) clients_.erase(client);
  streams_.erase(stream);
  finishing_.erase(id);
}

}  // namespace tandem::draft_service
