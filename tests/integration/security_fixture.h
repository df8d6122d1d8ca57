// Three services as processes with mutual TLS, tokens in front, and callers who are refused or not.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/common/security/authority.h"
#include "tests/integration/models.h"
#include "tests/integration/secure_services.h"
#include "tests/support/wait.h"

namespace tandem::testing {

using Flags = std::vector<std::string>;
inline constexpr char kToken[] = "right-4f1c9ab2d07e6653";
inline constexpr char kWrong[] = "wrong-4f1c9ab2d07e6653";

// Certificates of the right authority and of a stranger's, once for all tests; a target and a
// draft.
class SecurityTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = new Shared;
    for (const Files& files : {shared_->right, shared_->strange}) {
      MakeCertificates(files.folder);
      WriteFile(files.Path("trust.pem"), ReadFile(files.Path("ca.pem")));
      for (const char* name :
           {"ca.key", "orchestrator.key", "draft.key", "target.key", "client.key"}) {
        shared_->secrets.AddKey(files.Path(name));
      }
      WriteFile(files.Path("tokens"), std::string("# front\n") + kToken + "\n");
      WriteFile(files.Path("mine"), kToken);
    }
    shared_->secrets.AddToken(kToken);
    shared_->secrets.AddToken(kWrong);
    shared_->target = std::make_unique<Service>("target", shared_->right.Server("target"));
    shared_->draft = std::make_unique<Service>("draft", shared_->right.Server("draft"));
  }
  static void TearDownTestSuite() {
    EXPECT_THAT(shared_->secrets.In(target().Output() + draft().Output()), ::testing::IsEmpty());
    delete shared_;
  }

  // No log of this test has a secret in it.
  void TearDown() override {
    for (const auto& service : started_) said_ += service->Output();
    EXPECT_THAT(shared_->secrets.In(said_), ::testing::IsEmpty());
    for (const auto& service : started_) {
      EXPECT_TRUE(HasLine(service->Output(), {" transport ", "encryption="})) << service->Output();
    }
  }

  static const Files& right() { return shared_->right; }
  static const Files& strange() { return shared_->strange; }
  static Service& target() { return *shared_->target; }
  static Service& draft() { return *shared_->draft; }

  Service& Start(const std::string& kind, const Flags& flags) {
    started_.push_back(std::make_unique<Service>(kind, flags));
    return *started_.back();
  }
  // In front of these two.
  Service& Orchestrator(const Flags& flags, const Service& a_target = target(),
                        const Service& a_draft = draft()) {
    return Start("orchestrator",
                 flags + Flags{"--target=" + a_target.address(), "--draft=" + a_draft.address(),
                               "--target-patience=2s"});
  }
  static Flags Front() {
    return right().Server("orchestrator") + Flags{"--token-file=" + right().Path("tokens")};
  }

  CommandResult Ask(const Service& orchestrator, const Flags& flags) {
    const CommandResult result = Generate(orchestrator.address(), flags);
    said_ += result.output;
    return result;
  }
  // Also while its peers are still being connected to.
  void ExpectWorks(const Service& orchestrator, const Flags& flags) {
    CommandResult result;
    EXPECT_TRUE(WaitUntil([&] {
      result = Ask(orchestrator, flags);
      return result.exit_code == 0;
    })) << result.output
        << orchestrator.Output();
  }
  // `tandem generate` fails, and says so with `message`; the orchestrator's log has a line with
  // `log`.
  void ExpectRefused(const Service& orchestrator, const Flags& flags, const std::string& message,
                     const Flags& log) {
    const size_t from = orchestrator.Output().size();
    const CommandResult result = Ask(orchestrator, flags);
    EXPECT_NE(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, ::testing::HasSubstr(message));
    EXPECT_TRUE(log.empty() || orchestrator.Says(from, log)) << orchestrator.Output(from);
  }

  // A certificate of the right authority for `name`, over at this time from now, as FILE.pem and
  // FILE.key.
  static void Sign(const std::string& file, const std::string& name, long from_s, long to_s) {
    const security::Authority authority(
        security::PemPair{ReadFile(right().Path("ca.pem")), ReadFile(right().Path("ca.key"))});
    const security::PemPair pair = authority.Sign({.name = name, .from_s = from_s, .to_s = to_s});
    WriteFile(right().Path(file + ".pem"), pair.certificate);
    WriteFile(right().Path(file + ".key"), pair.key);
    shared_->secrets.AddKey(right().Path(file + ".key"));
  }

  struct Shared {
    ScratchFolder folder;
    Files right{folder.path() + "/right"};
    Files strange{folder.path() + "/strange"};
    Secrets secrets;
    std::unique_ptr<Service> target, draft;
  };
  inline static Shared* shared_ = nullptr;

  std::vector<std::unique_ptr<Service>> started_;
  std::string said_;
};

}  // namespace tandem::testing
