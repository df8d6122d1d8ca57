// The real binaries with certificates of the real scripts/certs, and what their logs must never
// have in them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/integration/process_cluster.h"

namespace tandem::testing {

// Runs scripts/certs for this folder; CHECKs that it succeeds.
void MakeCertificates(const std::string& folder, const std::vector<std::string>& flags = {});

// Written beside it, then renamed over it.
void Replace(const std::string& path, const std::string& text);

// The flags of a process that finds NAME.pem, NAME.key, trust.pem (authorities) and tokens in
// `folder`.
struct Files {
  std::string folder;

  std::string Path(absl::string_view name) const;
  // Mutual TLS with the certificate of `name`.
  std::vector<std::string> Server(absl::string_view name) const;
  // An orchestrator towards its peers, as `name`.
  std::vector<std::string> Peers(absl::string_view name) const;
  // `tandem` with the certificate `client` and the first of these tokens.
  std::vector<std::string> Client(absl::string_view tokens = "mine") const;
};

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b);

// A service of this kind on 127.0.0.1, with an admin port of its own; it listens when this returns.
class Service {
 public:
  Service(const std::string& kind, std::vector<std::string> flags, int port = 0,
          std::vector<ResourceLimit> limits = {});

  int port() const { return port_; }
  std::string address() const;
  const Process& process() const { return *process_; }
  // Ends it at once and begins it again on the same port; what it wrote before is kept for
  // Output().
  void Restart();
  // All of it, or what came after the first `from` bytes.
  std::string Output(size_t from = 0) const;
  // The port of its /metrics, out of its log.
  int AdminPort() const;
  // Waits until a line after `from` has all of `parts`.
  bool Says(size_t from, const std::vector<std::string>& parts) const;

 private:
  void Start(int port);

  std::string kind_;
  std::vector<std::string> flags_;
  std::vector<ResourceLimit> limits_;
  std::unique_ptr<Process> process_;
  std::string before_;
  int port_ = 0;
};

// `tandem generate` with a short request to this address.
CommandResult Generate(const std::string& address, const std::vector<std::string>& flags);

// Whether a line of the text has all of `parts`.
bool HasLine(absl::string_view text, const std::vector<std::string>& parts);

// What no log may have: tokens and their digests, the insides of keys.
class Secrets {
 public:
  void AddToken(const std::string& token);
  // Every line of base64 in a key file.
  void AddKey(const std::string& path);
  // The first bytes of those that are in `text`; never the whole.
  std::vector<std::string> In(absl::string_view text) const;
  size_t size() const { return all_.size(); }

 private:
  std::vector<std::string> all_;
};

}  // namespace tandem::testing
