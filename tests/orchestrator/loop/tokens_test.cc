// Who may call an orchestrator: the check comes before all others, and what it refuses is a request
// in its log.
#include <grpcpp/channel.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/transport/channel.h"
#include "common/transport/server_host.h"
#include "orchestrator/options.h"
#include "orchestrator/wiring.h"
#include "tandem/v1/generation.grpc.pb.h"
#include "tests/common/security/authority.h"
#include "tests/support/log_lines.h"
#include "tests/support/paths.h"

namespace tandem::orchestrator {
namespace {

constexpr char kToken[] = "right-0123456789abcdef";

class TokensTest : public ::testing::Test {
 protected:
  void Serve(const std::string& token_file) {
    Options options;
    options.target_addresses = {"127.0.0.1:1"};  // nobody
    options.tokenizer_directory = tandem::testing::SourcePath("demo/target");
    options.token_file = token_file;
    auto orchestrator = Orchestrator::Create(options);
    ASSERT_TRUE(orchestrator.ok()) << orchestrator.status();
    orchestrator_ = *std::move(orchestrator);
    auto host = transport::ServerHost::Start({.listen_address = "127.0.0.1:0",
                                              .services = {orchestrator_->grpc_service()},
                                              .health_names = {"tandem.v1.Generation"}});
    ASSERT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
  }

  grpc::Status Generate(const std::string& authorization) {
    const auto stub = v1::Generation::NewStub(Channel());
    grpc::ClientContext context;
    if (!authorization.empty()) context.AddMetadata("authorization", authorization);
    v1::GenerateRequest request;
    request.set_text("Once");
    const auto reader = stub->Generate(&context, request);
    v1::GenerateReply reply;
    while (reader->Read(&reply)) {
    }
    return reader->Finish();
  }
  grpc::Status Describe(const std::string& authorization) {
    grpc::ClientContext context;
    if (!authorization.empty()) context.AddMetadata("authorization", authorization);
    v1::DescribeReply reply;
    return v1::Generation::NewStub(Channel())->Describe(&context, {}, &reply);
  }
  // Of the other calls: all alike.
  std::vector<grpc::Status> Others(const std::string& authorization) {
    const auto stub = v1::Generation::NewStub(Channel());
    std::vector<grpc::Status> statuses;
    const auto ask = [&](const auto& call) {
      grpc::ClientContext context;
      if (!authorization.empty()) context.AddMetadata("authorization", authorization);
      statuses.push_back(call(context));
    };
    ask([&](grpc::ClientContext& context) {
      v1::ListModelsReply reply;
      return stub->ListModels(&context, {}, &reply);
    });
    ask([&](grpc::ClientContext& context) {
      v1::TokenizeRequest request;
      request.set_text("Once");
      v1::TokenizeReply reply;
      return stub->Tokenize(&context, request, &reply);
    });
    ask([&](grpc::ClientContext& context) {
      v1::DetokenizeReply reply;
      return stub->Detokenize(&context, {}, &reply);
    });
    return statuses;
  }
  std::shared_ptr<grpc::Channel> Channel() {
    return transport::MakeChannel("127.0.0.1:" + std::to_string(host_->port()));
  }

  const testing::LogRecorder log_;
  const security::ScratchFolder folder_;
  std::unique_ptr<Orchestrator> orchestrator_;
  std::unique_ptr<transport::ServerHost> host_;
};

TEST_F(TokensTest, WithoutAFileEverybodyMayCall) {
  Serve("");
  EXPECT_EQ(Generate("").error_code(), grpc::StatusCode::UNAVAILABLE);  // no target: the next check
  for (const grpc::Status& status : Others("")) EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(Describe("").ok());
}

TEST_F(TokensTest, TokensOfATextAndBackNeedNoTarget) {
  Serve("");
  const auto stub = v1::Generation::NewStub(Channel());
  v1::TokenizeRequest request;
  request.set_text("Once upon a time");
  request.set_token_bytes(true);
  v1::TokenizeReply tokens;
  grpc::ClientContext there;
  ASSERT_TRUE(stub->Tokenize(&there, request, &tokens).ok());
  ASSERT_GT(tokens.token_ids_size(), 0);
  EXPECT_EQ(tokens.token_bytes_size(), tokens.token_ids_size());
  EXPECT_EQ(tokens.context_length(), 0u);
  v1::DetokenizeRequest ids;
  *ids.mutable_token_ids() = tokens.token_ids();
  v1::DetokenizeReply text;
  grpc::ClientContext back;
  ASSERT_TRUE(stub->Detokenize(&back, ids, &text).ok());
  EXPECT_EQ(text.text(), "Once upon a time");
  v1::ListModelsReply models;
  grpc::ClientContext list;
  ASSERT_TRUE(stub->ListModels(&list, {}, &models).ok());
  ASSERT_EQ(models.models_size(), 1);
  EXPECT_EQ(models.models(0).id(), "target");
  EXPECT_GT(models.models(0).vocabulary_size(), 0u);
  EXPECT_EQ(models.models(0).target_model_id(), "") << "no target has said it";
}

TEST_F(TokensTest, AnErrorHasDetails) {
  Serve("");
  const auto stub = v1::Generation::NewStub(Channel());
  v1::DetokenizeReply text;
  v1::DetokenizeRequest ids;
  ids.add_token_ids(1 << 30);
  grpc::ClientContext wrong;
  const grpc::Status status = stub->Detokenize(&wrong, ids, &text);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(status.error_details().find("google.rpc.BadRequest"), std::string::npos);
  EXPECT_NE(status.error_details().find("token_ids"), std::string::npos);
  EXPECT_NE(Generate("").error_details().find("google.rpc.RetryInfo"), std::string::npos);
}

TEST_F(TokensTest, OnlyWhoHasOneMayCall) {
  Serve(folder_.Put("tokens", kToken));
  const std::string good = std::string("Bearer ") + kToken;
  EXPECT_EQ(Generate(good).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(Describe(good).ok());
  for (const grpc::Status& status : Others(good)) EXPECT_TRUE(status.ok());
  for (const std::string& bad : {std::string(), good + "x", std::string("Basic ") + kToken}) {
    EXPECT_EQ(Generate(bad).error_code(), grpc::StatusCode::UNAUTHENTICATED) << bad;
    EXPECT_EQ(Describe(bad).error_code(), grpc::StatusCode::UNAUTHENTICATED) << bad;
    for (const grpc::Status& status : Others(bad)) {
      EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED) << bad;
    }
  }
  EXPECT_EQ(log_.Of("unauthenticated").size(), 15u);
  size_t refused = 0;
  for (const testing::LogLine& line : log_.Of("request")) {
    refused += line.text.find("status=UNAUTHENTICATED") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(refused, 3u);
  for (const std::string& text : log_.Texts()) EXPECT_EQ(text.find(kToken), text.npos) << text;
}

TEST_F(TokensTest, ABadFileEndsTheStartAndIsNamed) {
  Options options;
  options.target_addresses = {"127.0.0.1:1"};
  options.tokenizer_directory = tandem::testing::SourcePath("demo/target");
  options.token_file = folder_.Put("tokens", "short");
  const absl::Status status = Orchestrator::Create(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find(options.token_file + ":1"), std::string::npos);
}

}  // namespace
}  // namespace tandem::orchestrator
