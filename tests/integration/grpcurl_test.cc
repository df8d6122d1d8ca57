// Any gRPC client can talk to an orchestrator through reflection; grpcurl stands for them.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"

namespace tandem::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Grpcurl() {
  const char* cache = std::getenv("TANDEM_CACHE");
  if (cache != nullptr) return absl::StrCat(cache, "/bin/grpcurl");
  cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr) return absl::StrCat(cache, "/tandem/bin/grpcurl");
  const char* home = std::getenv("HOME");
  return absl::StrCat(home == nullptr ? "" : home, "/.cache/tandem/bin/grpcurl");
}

class GrpcurlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Exists(Grpcurl())) GTEST_SKIP() << "not here: " << Grpcurl() << "; run scripts/setup";
    cluster_ = std::make_unique<InProcessCluster>(DemoOptions());
  }

  // Both outputs of `grpcurl -plaintext ARGUMENTS`.
  static std::string Run(const std::string& arguments, bool fails = false) {
    const std::string command = absl::StrCat(Grpcurl(), " -plaintext ", arguments, " 2>&1");
    FILE* pipe = popen(command.c_str(), "r");
    std::string output;
    char buffer[4096];
    for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) output.append(buffer, n);
    EXPECT_EQ(pclose(pipe) != 0, fails) << output;
    return output;
  }

  std::string address() const { return absl::StrCat("localhost:", cluster_->port()); }

  std::unique_ptr<InProcessCluster> cluster_;
};

TEST_F(GrpcurlTest, List) {
  EXPECT_THAT(Run(absl::StrCat(address(), " list")),
              AllOf(HasSubstr("tandem.v1.Generation"), HasSubstr("grpc.health.v1.Health")));
  EXPECT_THAT(Run(absl::StrCat("localhost:", cluster_->target_port(), " list")),
              HasSubstr("tandem.internal.v1.Target"));
  EXPECT_THAT(Run(absl::StrCat("localhost:", cluster_->draft_port(), " list")),
              HasSubstr("tandem.internal.v1.Draft"));
}

TEST_F(GrpcurlTest, Health) {
  for (const int port : {cluster_->port(), cluster_->target_port(), cluster_->draft_port()}) {
    const std::string server = absl::StrCat("localhost:", port);
    EXPECT_THAT(Run(absl::StrCat(server, " grpc.health.v1.Health/Check")), HasSubstr("SERVING\""));
    EXPECT_THAT(Run(absl::StrCat(server, " describe grpc.health.v1.Health")), HasSubstr("Watch"));
  }
}

TEST_F(GrpcurlTest, Generate) {
  const std::string output =
      Run(absl::StrCat("-d '{\"text\": \"Once upon a time\", \"max_tokens\": 20, \"sampling\": "
                       "{\"temperature\": 0}}' ",
                       address(), " tandem.v1.Generation/Generate"));
  EXPECT_THAT(output,
              AllOf(HasSubstr("\"started\""), HasSubstr("\"token_ids\""),
                    HasSubstr("\"finish_reason\": \"FINISH_REASON_LENGTH\""),
                    HasSubstr("\"completion_tokens\": 20"), HasSubstr("\"accepted_histogram\"")));
}

TEST_F(GrpcurlTest, ModelsAndTokens) {
  EXPECT_THAT(Run(absl::StrCat(address(), " tandem.v1.Generation/ListModels")),
              AllOf(HasSubstr("\"context_length\""), HasSubstr("RULE_COUPLED")));
  EXPECT_THAT(Run(absl::StrCat("-d '{\"text\": \"Once upon\", \"token_bytes\": true}' ", address(),
                               " tandem.v1.Generation/Tokenize")),
              AllOf(HasSubstr("\"token_ids\""), HasSubstr("\"token_bytes\"")));
}

// It decodes google.rpc.Status and its details with code of its own.
TEST_F(GrpcurlTest, ErrorsHaveDetails) {
  const std::string output = Run(absl::StrCat("-d '{\"text\": \"Once\", \"samples\": 17}' ",
                                              address(), " tandem.v1.Generation/Generate"),
                                 /*fails=*/true);
  EXPECT_THAT(output, AllOf(HasSubstr("Code: InvalidArgument"), HasSubstr("google.rpc.BadRequest"),
                            HasSubstr("samples")));
}

}  // namespace
}  // namespace tandem::testing
