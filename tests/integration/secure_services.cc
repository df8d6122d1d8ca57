#include "tests/integration/secure_services.h"

#include <openssl/sha.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "tests/integration/models.h"
#include "tests/support/paths.h"
#include "tests/support/wait.h"

namespace tandem::testing {

void MakeCertificates(const std::string& folder, const std::vector<std::string>& flags) {
  const std::string command = absl::StrCat(SourcePath("scripts/certs"), " '", folder, "' ",
                                           absl::StrJoin(flags, " "), " >/dev/null");
  TANDEM_CHECK(std::system(command.c_str()) == 0) << command;
}

void Replace(const std::string& path, const std::string& text) {
  WriteFile(path + ".new", text);
  std::filesystem::rename(path + ".new", path);
}

std::string Files::Path(absl::string_view name) const { return absl::StrCat(folder, "/", name); }

std::vector<std::string> Files::Server(absl::string_view name) const {
  return {absl::StrCat("--tls-certificate=", folder, "/", name, ".pem"),
          absl::StrCat("--tls-key=", folder, "/", name, ".key"),
          absl::StrCat("--tls-client-ca=", folder, "/trust.pem")};
}

std::vector<std::string> Files::Peers(absl::string_view name) const {
  return {absl::StrCat("--peer-tls-ca=", folder, "/trust.pem"),
          absl::StrCat("--peer-tls-certificate=", folder, "/", name, ".pem"),
          absl::StrCat("--peer-tls-key=", folder, "/", name, ".key")};
}

std::vector<std::string> Files::Client(absl::string_view tokens) const {
  return {absl::StrCat("--tls-ca=", folder, "/trust.pem"),
          absl::StrCat("--tls-certificate=", folder, "/client.pem"),
          absl::StrCat("--tls-key=", folder, "/client.key"),
          absl::StrCat("--token-file=", folder, "/", tokens)};
}

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Service::Service(const std::string& kind, std::vector<std::string> flags, int port,
                 std::vector<ResourceLimit> limits)
    : kind_(kind), flags_(std::move(flags)), limits_(std::move(limits)) {
  flags_.push_back("--admin-listen=127.0.0.1:0");
  if (kind_ == "target") flags_.push_back("--measure=0s");
  if (kind_ == "orchestrator") {
    flags_.push_back(absl::StrCat("--tokenizer=", DemoTarget()));
  } else {
    flags_.push_back(absl::StrCat("--model=", kind_ == "draft" ? DemoDraft() : DemoTarget()));
  }
  Start(port);
}

void Service::Start(int port) {
  process_ = std::make_unique<Process>(
      "tandem-" + kind_,
      flags_ + std::vector<std::string>{absl::StrCat("--listen=127.0.0.1:", port)}, "port_file",
      limits_);
  port_ = process_->WaitForPort();
}

std::string Service::address() const { return absl::StrCat("127.0.0.1:", port_); }

void Service::Restart() {
  process_->Kill();
  before_ += process_->Output();
  Start(port_);
}

std::string Service::Output(size_t from) const {
  const std::string all = before_ + process_->Output();
  return all.substr(std::min(from, all.size()));
}

int Service::AdminPort() const {
  const std::string output = process_->Output();
  const size_t at = output.find(" admin_port=");
  TANDEM_CHECK(at != output.npos) << output;
  return std::atoi(output.c_str() + at + std::string(" admin_port=").size());
}

bool Service::Says(size_t from, const std::vector<std::string>& parts) const {
  return WaitUntil([&] { return HasLine(Output(from), parts); });
}

CommandResult Generate(const std::string& address, const std::vector<std::string>& flags) {
  return RunCommand("tandem", std::vector<std::string>{"generate", "--orchestrator=" + address,
                                                       "--prompt=The city was", "--temperature=0",
                                                       "--max-tokens=8", "--draft-tokens=4"} +
                                  flags);
}

bool HasLine(absl::string_view text, const std::vector<std::string>& parts) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    bool all = true;
    for (const std::string& part : parts) all = all && absl::StrContains(line, part);
    if (all) return true;
  }
  return false;
}

void Secrets::AddToken(const std::string& token) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest);
  const std::string bytes(reinterpret_cast<const char*>(digest), sizeof digest);
  all_.insert(all_.end(), {token, bytes, absl::BytesToHexString(bytes), absl::Base64Escape(bytes)});
}

void Secrets::AddKey(const std::string& path) {
  const std::string text = ReadFile(path);
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    // Shorter ones may be anywhere. The first line of a P-256 key is the algorithm, as in any
    // other, and then the key.
    if (!absl::StartsWith(line, "-----") && line.size() >= 16) all_.emplace_back(line);
  }
}

std::vector<std::string> Secrets::In(absl::string_view text) const {
  std::vector<std::string> found;
  for (const std::string& secret : all_) {
    if (absl::StrContains(text, secret)) found.push_back(secret.substr(0, 6) + "…");
  }
  if (absl::StrContains(text, "PRIVATE KEY")) found.emplace_back("PRIVATE KEY");
  return found;
}

}  // namespace tandem::testing
