// A line in which clients have turns, so that whoever comes with a thousand requests, or over a
// thousand connections, keeps nobody else waiting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tandem::concurrency {

// Where a connection comes from: "ipv4:10.0.0.7" of "ipv4:10.0.0.7:41234". Of an IPv6 address only
// the first 64 bits count, because one host may have all the rest.
std::string AddressOf(absl::string_view connection);

// Addresses have turns, the connections of an address have turns among themselves, and what waits
// for one connection goes by its number. A connection alone would not do, because anybody can open
// many; neither would an address, because a proxy may be the address of everybody.
//
// Not thread-safe. Clients are named by their connections, as gRPC writes them. Numbers rise with
// the order of arrival and are unique in a line.
class ClientTurns {
 public:
  ClientTurns() = default;
  ClientTurns(const ClientTurns&) = delete;
  ClientTurns& operator=(const ClientTurns&) = delete;

  // Does nothing if it is in line.
  void Join(const std::string& client, uint64_t number);
  // Its client's turn comes next. For a number whose turn did not bring what it waits for.
  void JoinAgain(const std::string& client, uint64_t number);
  // Returns whether it was in line. `had_turn`: it got what it waited for, so its client's next
  // turn comes after those of all others.
  bool Leave(const std::string& client, uint64_t number, bool had_turn);

  bool empty() const { return root_.size == 0; }
  size_t size() const { return root_.size; }

  // The number whose turn it is. Not for an empty line.
  uint64_t Front() const;
  // All numbers, as they would be served from now on if nobody came.
  std::vector<uint64_t> InOrder() const { return InOrder(root_); }
  // Which number gives way where a line is full and this client comes: the last one of the address,
  // and of its connection, that has the most. Empty: the client would have as many itself.
  std::optional<uint64_t> GivesWayTo(const std::string& client) const;

 private:
  struct Node {
    std::string name;
    size_t size = 0;             // numbers below it
    std::set<uint64_t> numbers;  // of a connection
    std::list<Node> children;    // of all others; the first one's turn is next, none is empty
    std::unordered_map<std::string, std::list<Node>::iterator> by_name;
  };
  enum class Place { kKeep, kFirst };
  using Path = absl::Span<const std::string>;

  static bool Add(Node& node, Path path, uint64_t number, Place place);
  static bool Remove(Node& node, Path path, uint64_t number, bool had_turn);
  static std::vector<uint64_t> InOrder(const Node& node);

  Node root_;
};

}  // namespace tandem::concurrency
