#include "common/concurrency/client_turns.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"

namespace tandem::concurrency {

std::string AddressOf(absl::string_view connection) {
  absl::string_view address = connection.substr(0, connection.rfind(':'));
  absl::string_view host = address;
  if (!absl::ConsumePrefix(&host, "ipv6:")) return std::string(address);
  // gRPC escapes the brackets, the HTTP port does not.
  if (!absl::ConsumePrefix(&host, "[")) absl::ConsumePrefix(&host, "%5B");
  in6_addr bytes{};
  const std::string text(host.substr(0, host.find_first_of("]%")));
  if (inet_pton(AF_INET6, text.c_str(), &bytes) != 1) return std::string(address);
  std::fill(std::begin(bytes.s6_addr) + 8, std::end(bytes.s6_addr), uint8_t{0});
  std::array<char, INET6_ADDRSTRLEN> network{};
  inet_ntop(AF_INET6, &bytes, network.data(), network.size());
  return absl::StrCat("ipv6:", network.data());
}

namespace {

std::array<std::string, 2> PathOf(const std::string& client) { return {AddressOf(client), client}; }

}  // namespace

void ClientTurns::Join(const std::string& client, uint64_t number) {
  Add(root_, PathOf(client), number, Place::kKeep);
}

void ClientTurns::JoinAgain(const std::string& client, uint64_t number) {
  Add(root_, PathOf(client), number, Place::kFirst);
}

bool ClientTurns::Leave(const std::string& client, uint64_t number, bool had_turn) {
  return Remove(root_, PathOf(client), number, had_turn);
}

bool ClientTurns::Add(Node& node, Path path, uint64_t number, Place place) {
  if (path.empty()) {
    const bool added = node.numbers.insert(number).second;
    node.size = node.numbers.size();
    return added;
  }
  auto [it, is_new] = node.by_name.try_emplace(path.front());
  if (is_new) {
    it->second = node.children.emplace(node.children.end());
    it->second->name = path.front();
  }
  if (place == Place::kFirst) {
    node.children.splice(node.children.begin(), node.children, it->second);
  }
  const bool added = Add(*it->second, path.subspan(1), number, place);
  if (added) ++node.size;
  return added;
}

bool ClientTurns::Remove(Node& node, Path path, uint64_t number, bool had_turn) {
  if (path.empty()) {
    const bool removed = node.numbers.erase(number) > 0;
    node.size = node.numbers.size();
    return removed;
  }
  const auto it = node.by_name.find(path.front());
  if (it == node.by_name.end()) return false;
  const std::list<Node>::iterator child = it->second;
  if (!Remove(*child, path.subspan(1), number, had_turn)) return false;
  --node.size;
  if (child->size == 0) {
    node.by_name.erase(it);
    node.children.erase(child);
  } else if (had_turn) {
    node.children.splice(node.children.end(), node.children, child);
  }
  return true;
}

uint64_t ClientTurns::Front() const {
  TANDEM_CHECK(!empty());
  const Node* node = &root_;
  while (!node->children.empty()) node = &node->children.front();
  return *node->numbers.begin();
}

std::vector<uint64_t> ClientTurns::InOrder(const Node& node) {
  std::vector<uint64_t> order(node.numbers.begin(), node.numbers.end());
  order.reserve(node.size);
  std::vector<std::vector<uint64_t>> children;
  for (const Node& child : node.children) children.push_back(InOrder(child));
  for (size_t turn = 0; order.size() < node.size; ++turn) {
    for (const std::vector<uint64_t>& child : children) order.push_back(child[turn]);
    std::erase_if(children, [turn](const auto& child) { return child.size() == turn + 1; });
  }
  return order;
}

std::optional<uint64_t> ClientTurns::GivesWayTo(const std::string& client) const {
  const Node* node = &root_;
  bool shared = true;  // `node` is above the client's own
  for (const std::string& name : PathOf(client)) {
    if (node->children.empty()) return std::nullopt;
    const Node* largest =
        &*std::max_element(node->children.begin(), node->children.end(),
                           [](const Node& a, const Node& b) { return a.size < b.size; });
    if (shared) {
      const auto own = node->by_name.find(name);
      const size_t size = own == node->by_name.end() ? 0 : own->second->size;
      if (largest->size > size + 1) {
        shared = largest->name == name;
      } else if (size > 0) {
        largest = &*own->second;
      } else {
        return std::nullopt;
      }
    }
    node = largest;
  }
  if (shared) return std::nullopt;
  return *node->numbers.rbegin();
}

}  // namespace tandem::concurrency
