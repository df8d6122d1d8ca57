// Who may talk to whom: three services as processes with mutual TLS between them, tokens at the
// orchestrator's front, and `tandem generate`. Every kind of caller and server that is not right is
// refused, the log of one side or the other says why and what to do, and no log ever has a secret
// in it.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tandem/v1/generation.grpc.pb.h"
#include "tests/integration/models.h"
#include "tests/integration/scraper.h"
#include "tests/integration/security_fixture.h"

namespace tandem::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(SecurityTest, TheSearchForSecretsFindsThem) {
  EXPECT_GT(shared_->secrets.size(), 20u);
  EXPECT_THAT(shared_->secrets.In("nothing of that kind"), IsEmpty());
  EXPECT_EQ(shared_->secrets.In(std::string("a b=\"") + kToken + "\"").size(), 1u);
  EXPECT_GE(shared_->secrets.In(ReadFile(right().Path("target.key"))).size(), 2u);
}

TEST_F(SecurityTest, AtTheFront) {
  Service& orchestrator = Orchestrator(Front() + right().Peers("orchestrator"));
  const Flags good = right().Client();
  const std::string ca = "--tls-ca=" + right().Path("trust.pem");
  const std::string token = "--token-file=" + right().Path("mine");
  const auto as = [](const Files& files, const std::string& name) {
    return Flags{"--tls-certificate=" + files.Path(name + ".pem"),
                 "--tls-key=" + files.Path(name + ".key")};
  };
  ExpectWorks(orchestrator, good);
  // A file that there is makes a service of it; what it is good for is on its /metrics.
  for (const Service* service : {&orchestrator, &target(), &draft()}) {
    const auto scrape = ScrapePort(service->AdminPort());
    ASSERT_TRUE(scrape.ok()) << scrape.status();
    const std::string text =
        admin::Http(service->AdminPort(), "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(text,
                HasSubstr(absl::StrCat("tandem:tls_certificate_expiry_timestamp_seconds{file=\"",
                                       right().Path("trust.pem"), "\"} ")));
  }

  // Who does not come with a certificate that is right.
  ExpectRefused(orchestrator, {ca, token}, "UNAVAILABLE",
                {"handshake_failed", "did not return a certificate", "hint=", "--tls-certificate"});
  ExpectRefused(orchestrator, Flags{ca, token} + as(strange(), "client"), "UNAVAILABLE",
                {"handshake_failed", "certificate verify failed", "hint=", "renew it"});
  Sign("old", "client", -7200, -3600);
  ExpectRefused(orchestrator, Flags{ca, token} + as(right(), "old"),
                "TLS certificate " + right().Path("old.pem") + ": expired at 20", {});
  const size_t from = orchestrator.Output().size();
  {  // the same, by a client that does not look at its own
    const auto channel = grpc::CreateChannel(
        orchestrator.address(), grpc::SslCredentials({ReadFile(right().Path("trust.pem")),
                                                      ReadFile(right().Path("old.key")),
                                                      ReadFile(right().Path("old.pem"))}));
    grpc::ClientContext context;
    v1::DescribeReply reply;
    EXPECT_EQ(v1::Generation::NewStub(channel)->Describe(&context, {}, &reply).error_code(),
              grpc::StatusCode::UNAVAILABLE);
    EXPECT_TRUE(
        orchestrator.Says(from, {"handshake_failed", "certificate verify failed", "has expired"}));
  }

  // Who does not find the server that was meant.
  ExpectRefused(
      orchestrator, Flags{"--tls-ca=" + strange().Path("ca.pem"), token} + as(right(), "client"),
      "certificate verify failed\n  hint: the other side's certificate has expired, or", {});
  ExpectRefused(orchestrator, good + Flags{"--tls-server-name=elsewhere"},
                "Hostname Verification Check failed.\n  hint: the server's certificate lacks", {});

  // Who speaks another language.
  ExpectRefused(orchestrator, {}, "UNAVAILABLE", {"handshake_failed", "hint=", "plaintext"});
  ExpectRefused(orchestrator, {},
                "\n  hint: somebody listens there, and does not answer in plaintext: the port may "
                "speak TLS; then give --tls-ca=FILE",
                {});
  Service& plain = Orchestrator(right().Peers("orchestrator"));
  ExpectRefused(plain, good, "hint: one side speaks TLS and the other plaintext", {});
  ExpectWorks(plain, {});  // the negative control

  // A caller without a known token.
  const Flags without = Flags{ca} + as(right(), "client");
  WriteFile(right().Path("wrong"), kWrong);
  WriteFile(right().Path("empty"), "");
  ExpectRefused(orchestrator, without,
                "UNAUTHENTICATED: no token: the metadata 'authorization' must be 'Bearer TOKEN'",
                {"unauthenticated method=Generate", "no token"});
  ExpectRefused(orchestrator, without + Flags{"--token-file=" + right().Path("wrong")},
                "UNAUTHENTICATED: unknown token in 'authorization'",
                {"unauthenticated method=Generate", "unknown token"});
  ExpectRefused(orchestrator, without + Flags{"--token-file=" + right().Path("empty")},
                "token file " + right().Path("empty") + ": is empty", {});
  ExpectWorks(orchestrator, good);  // all the time
}

TEST_F(SecurityTest, BetweenTheOrchestratorAndItsPeers) {
  const Flags ca = {"--peer-tls-ca=" + right().Path("trust.pem")};
  struct Case {
    std::string name;
    Flags peers;
    bool peers_say;  // else the orchestrator
    Flags log;
  };
  const std::vector<Case> cases = {
      {"no certificate", ca, true, {"did not return a certificate", "--peer-tls-certificate"}},
      {"a stranger's certificate",
       ca + Flags{"--peer-tls-certificate=" + strange().Path("orchestrator.pem"),
                  "--peer-tls-key=" + strange().Path("orchestrator.key")},
       true,
       {"certificate verify failed", "renew it"}},
      {"plaintext", {}, true, {"hint=", "plaintext"}},
      {"servers of another authority",
       right().Peers("orchestrator") + Flags{"--peer-tls-ca=" + strange().Path("ca.pem")},
       false,
       {"certificate verify failed", "add its authority"}},
      {"servers of another name",
       right().Peers("orchestrator") + Flags{"--peer-tls-server-name=elsewhere"},
       false,
       {"Hostname Verification Check failed", "--peer-tls-server-name"}},
  };
  for (const Case& bad : cases) {
    SCOPED_TRACE(bad.name);
    const size_t target_from = target().Output().size();
    const size_t draft_from = draft().Output().size();
    Service& orchestrator = Orchestrator(bad.peers);
    for (const auto& [peer, from] : {std::pair{&target(), target_from}, {&draft(), draft_from}}) {
      if (bad.peers_say) {
        EXPECT_TRUE(peer->Says(from, Flags{"handshake_failed"} + bad.log)) << peer->Output(from);
      } else {
        EXPECT_TRUE(
            orchestrator.Says(0, Flags{"handshake_failed", "to=ipv4:" + peer->address()} + bad.log))
            << orchestrator.Output();
      }
    }
    ExpectRefused(orchestrator, {}, "no target is ready", {"target " + target().address()});
    EXPECT_FALSE(HasLine(orchestrator.Output(), {" peer_up "})) << orchestrator.Output();
    started_.pop_back();
  }
  // The negative control: the same ones, asked as it is right.
  ExpectWorks(Orchestrator(right().Peers("orchestrator")), {});
}

// A start with one is refused by name; one that expires while its service runs is told at the
// moment.
TEST_F(SecurityTest, ExpiredCertificatesOfServers) {
  Sign("old", "old", -7200, -3600);
  for (const char* kind : {"target", "draft"}) {
    const CommandResult result =
        RunCommand(absl::StrCat("tandem-", kind),
                   right().Server("old") +
                       Flags{"--listen=127.0.0.1:0", absl::StrCat("--model=", DemoDraft())});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.output,
                HasSubstr("TLS certificate " + right().Path("old.pem") + ": expired at 20"));
    said_ += result.output;
  }
  Sign("short", "short", -3600, 6);
  const absl::Time over = absl::Now() + absl::Seconds(6);
  Service& a_target = Start("target", right().Server("short"));
  Service& a_draft = Start("draft", right().Server("short"));
  Service& front = Orchestrator(right().Server("short") + right().Peers("orchestrator"));
  // This one's own towards its peers, which know it from before.
  Service& caller = Orchestrator(right().Peers("short"));
  ExpectWorks(caller, {});
  EXPECT_TRUE(front.Says(0, {"certificate_expires", right().Path("short.pem"), "days_left=0"}));
  for (Service* service : {&a_target, &a_draft, &front, &caller}) {
    EXPECT_TRUE(service->Says(0, {"certificate_expired", right().Path("short.pem"), "hint="}))
        << service->Output();
  }
  EXPECT_GE(absl::Now(), over - absl::Seconds(1));
  ExpectRefused(front, right().Client(), "has expired", {});
  Service& orchestrator = Orchestrator(right().Peers("orchestrator"), a_target, a_draft);
  for (const Service* peer : {&a_target, &a_draft}) {
    EXPECT_TRUE(orchestrator.Says(0, {"handshake_failed", "to=ipv4:" + peer->address(),
                                      "certificate verify failed", "has expired"}))
        << orchestrator.Output();
  }

  // A connection that stands goes on; the next one is refused, and both say why.
  ExpectWorks(caller, {});
  const size_t from = target().Output().size();
  target().Restart();
  EXPECT_TRUE(caller.Says(0, {"handshake_failed", "to=ipv4:" + target().address(),
                              "expired=", right().Path("short.pem")}))
      << caller.Output();
  EXPECT_TRUE(target().Says(from, {"handshake_failed", "certificate verify failed", "has expired"}))
      << target().Output(from);
}

}  // namespace
}  // namespace tandem::testing
