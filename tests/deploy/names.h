// Names of services, for this process and all that it starts: what DNS is in a cluster
// (name_lookup.cc).
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tandem::testing {

// Make the first one before anything else looks a name up or makes a channel: it sets variables of
// the environment. One at a time. Thread safety: one thread.
class Names {
 public:
  Names();

  // From the next lookup on; no addresses: there is no such name. The file is replaced as a whole.
  void Set(const std::string& name, std::vector<std::string> addresses);

 private:
  std::map<std::string, std::vector<std::string>> names_;
};

}  // namespace tandem::testing
