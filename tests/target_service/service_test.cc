// The service behind real gRPC, over TCP and within the process.
#include "target_service/service.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "common/base/log.h"
#include "common/messages/handshake.h"
#include "common/transport/server_host.h"
#include "tandem/internal/v1/target.grpc.pb.h"
#include "tests/target_service/harness.h"

namespace tandem::target_service {
namespace {

const std::vector<uint32_t> kPrompt = {1, 2, 3};

class TargetService : public ::testing::Test {
 protected:
  TargetService() {
    Options options;
    options.tokenizer_id = "tokens-1";
    options.linger = absl::Milliseconds(200);
    options.token_hash = [](uint32_t token) { return token * 3; };
    auto model = std::make_unique<testing::TableModel>(testing::TableModelOptions{});
    auto engine = CpuEngine::Create({}, std::move(model));
    TANDEM_CHECK_OK(engine);
    auto service = Service::Create(options, *std::move(engine));
    TANDEM_CHECK_OK(service);
    service_ = *std::move(service);
    transport::ServerHostOptions host_options;
    host_options.listen_address = "127.0.0.1:0";
    host_options.services = {service_->grpc_service()};
    host_options.health_names = {"tandem.internal.v1.Target"};
    auto host = transport::ServerHost::Start(host_options);
    TANDEM_CHECK_OK(host);
    host_ = *std::move(host);
    stub_ = internal::v1::Target::NewStub(grpc::CreateChannel(
        absl::StrCat("127.0.0.1:", host_->port()), grpc::InsecureChannelCredentials()));
  }

  using Stream = grpc::ClientReaderWriter<internal::v1::TargetRequest, internal::v1::TargetReply>;

  std::unique_ptr<Stream> Connect(grpc::ClientContext& call, const std::string& client) {
    auto stream = stub_->Verify(&call);
    internal::v1::TargetRequest hello;
    hello.mutable_hello()->set_protocol_revision(messages::kProtocolRevision);
    hello.mutable_hello()->set_client_id(client);
    hello.mutable_hello()->set_incarnation(1);
    hello.mutable_hello()->set_tokenizer_id("tokens-1");
    stream->Write(hello);
    return stream;
  }

  // The service learns of a broken stream in its own time.
  bool EventuallyEmpty() {
    for (int i = 0; i < 1000 && service_->active_sequences() > 0; ++i) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    return service_->active_sequences() == 0;
  }

  std::unique_ptr<Service> service_;  // outlives the host
  std::unique_ptr<transport::ServerHost> host_;
  std::unique_ptr<internal::v1::Target::Stub> stub_;
};

internal::v1::TargetRequest Batch(const internal::v1::Step& step) {
  internal::v1::TargetRequest request;
  *request.mutable_batch()->add_steps() = step;
  return request;
}

TEST(LostDevice, FailsTheStartThatMeasuresPasses) {
  const base::ScopedLogSink quiet([](const base::LogEntry&) {});
  testing::TableModelOptions options;
  options.before_pass = [](auto) { return absl::InternalError("launch failed"); };
  options.device_status = [] { return absl::InternalError("an illegal memory access (700)"); };
  auto engine = CpuEngine::Create({}, std::make_unique<testing::TableModel>(options));
  TANDEM_CHECK_OK(engine);
  const auto service = Service::Create({}, *std::move(engine));
  EXPECT_EQ(service.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(service.status().message().find("(700)"), std::string::npos) << service.status();
}

TEST_F(TargetService, AnswersRoundsAndEndsInOrder) {
  grpc::ClientContext call;
  auto stream = Connect(call, "a");
  internal::v1::TargetReply reply;
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.welcome().tokenizer_id(), "tokens-1");
  EXPECT_FALSE(reply.welcome().instance_id().empty());
  std::vector<uint32_t> committed = kPrompt;
  stream->Write(Batch(FirstStep(1, committed)));
  ASSERT_TRUE(stream->Read(&reply));
  ASSERT_EQ(reply.verdicts().verdicts_size(), 1);
  ASSERT_EQ(reply.verdicts().verdicts(0).status(), internal::v1::STATUS_OK);
  EXPECT_EQ(reply.verdicts().load().free_slots(), 63u);
  committed.push_back(reply.verdicts().verdicts(0).entries(0).next_token());
  stream->Write(Batch(MakeStep(1, 2, committed, 3, {{1, 2, 3}})));
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.verdicts().verdicts(0).entries_size(), 4);
  // What was answered is counted.
  const std::string metrics = service_->MetricsText();
  for (const char* line :
       {"\ntandem:target_steps_total{status=\"OK\"} 2\n", "\ntandem:target_passes_total 2\n",
        "\ntandem:target_candidates_total 3\n", "\ntandem:build_info{service=\"target\",",
        "\nprocess_cpu_seconds_total "}) {
    EXPECT_NE(metrics.find(line), std::string::npos) << line << metrics;
  }
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&reply));
  EXPECT_TRUE(stream->Finish().ok());
  // The device frees them after the stream has ended.
  EXPECT_TRUE(EventuallyEmpty());
}

TEST_F(TargetService, CancelledStreamLeavesNoSlotTaken) {
  grpc::ClientContext call;
  auto stream = Connect(call, "b");
  internal::v1::TargetReply reply;
  ASSERT_TRUE(stream->Read(&reply));
  for (uint64_t sequence = 0; sequence < 5; ++sequence) {
    stream->Write(Batch(FirstStep(sequence, kPrompt)));
  }
  ASSERT_TRUE(stream->Read(&reply));
  call.TryCancel();
  while (stream->Read(&reply)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(EventuallyEmpty());  // they linger first: the device wakes up to end them
}

TEST_F(TargetService, DescribeTellsWelcomeAndTokenHashes) {
  v1::DescribeRequest request;
  request.set_token_hashes_from(5);
  request.set_token_hashes_count(100);
  v1::DescribeReply reply;
  grpc::ClientContext call;
  ASSERT_TRUE(stub_->Describe(&call, request, &reply).ok());
  EXPECT_EQ(reply.welcome().vocabulary_size(), 8u);
  EXPECT_EQ(reply.load().free_slots(), 64u);
  EXPECT_EQ(reply.load().cost_curve_size(), 10);  // 1, 2, 4, … 512 rows were measured
  ASSERT_EQ(reply.token_hashes_size(), 3);        // to the end of the vocabulary
  EXPECT_EQ(reply.token_hashes(0), 15u);
}

TEST(TargetServiceOptions, AreChecked) {
  Options options;
  options.max_sequences = 0;
  options.max_draft_tokens = 65;
  absl::Status status = options.Validate();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("max_sequences"), std::string::npos);
  EXPECT_NE(status.message().find("max_draft_tokens"), std::string::npos);
  options.linger = absl::Hours(2);
  options.measure = -absl::Seconds(1);
  options.pass_rows = 70000;
  for (const char* name : {"linger is 2h", "measure is -1s", "pass_rows is 70000"}) {
    EXPECT_NE(options.Validate().message().find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace tandem::target_service
