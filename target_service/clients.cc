#include "target_service/clients.h"

#include "absl/strings/str_cat.h"
#include "common/messages/handshake.h"

namespace tandem::target_service {

absl::StatusOr<StreamId> Clients::Enter(const std::string& client_id, base::Incarnation incarnation,
                                        StreamId stream) {
  concurrency::MutexLock lock(mutex_);
  if (clients_.size() >= kMaxRemembered) {
    absl::erase_if(clients_, [](const auto& entry) { return entry.second.stream == StreamId(); });
  }
  auto [it, is_new] = clients_.try_emplace(client_id);
  Client& client = it->second;
  if (!is_new && incarnation <= client.incarnation) {
    return messages::Overtaken(absl::StrCat(
        "hello.incarnation is ", base::Number(incarnation), ", but client \"", client_id,
        "\" came with ", base::Number(client.incarnation), " before: it must rise"));
  }
  StreamId fenced = client.stream;
  client = {incarnation, stream};
  return fenced;
}

void Clients::Leave(const std::string& client_id, StreamId stream) {
  concurrency::MutexLock lock(mutex_);
  auto it = clients_.find(client_id);
  if (it != clients_.end() && it->second.stream == stream) it->second.stream = {};
}

}  // namespace tandem::target_service
