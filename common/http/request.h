// One request of HTTP/1.1, as its handler sees it.
//
// Thread safety: plain values.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tandem::http {

struct Header {
  std::string name;  // in a request: in lower case
  std::string value;
};

struct Request {
  std::string method;  // as it came: methods are told apart by case
  std::string path;    // begins with '/'; %XX is decoded, so it may hold any byte
  std::string query;   // what follows the '?', as it came
  std::vector<Header> headers;
  std::string body;
  std::string client;      // the connection: "ipv4:10.0.0.7:41234"
  bool encrypted = false;  // it came over TLS
  // Not OK: the handler refused the request by its head, so its body was not read.
  absl::Status refused;
  // What the body takes of a budget; let go with the request.
  std::vector<std::shared_ptr<const void>> memory;

  // Of all headers of this name, in lower case.
  std::vector<absl::string_view> Values(absl::string_view name) const {
    std::vector<absl::string_view> values;
    for (const Header& header : headers) {
      if (header.name == name) values.emplace_back(header.value);
    }
    return values;
  }
  // Of the first one; empty: there is none.
  absl::string_view Value(absl::string_view name) const {
    for (const Header& header : headers) {
      if (header.name == name) return header.value;
    }
    return {};
  }
};

}  // namespace tandem::http
