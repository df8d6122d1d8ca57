// The streams of one client are a group: they share its part of the device.
//
// Thread safety: the drafting thread alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "common/base/check.h"

namespace tandem::draft_service {

class ClientGroups {
 public:
  // The client has one stream more. Its group: the same for all of its streams, while it has any.
  uint64_t Join(const std::string& client_id) {
    Client& client = clients_[client_id];
    if (client.streams++ == 0) client.group = ++last_group_;
    return client.group;
  }
  // It has one stream less.
  void Leave(const std::string& client_id) {
    const auto client = clients_.find(client_id);
    TANDEM_CHECK(client != clients_.end()) << client_id;
    if (--client->second.streams == 0) clients_.erase(client);
  }

 private:
  struct Client {
    uint64_t group = 0;
    size_t streams = 0;
  };

  absl::flat_hash_map<std::string, Client> clients_;
  uint64_t last_group_ = 0;
};

}  // namespace tandem::draft_service
