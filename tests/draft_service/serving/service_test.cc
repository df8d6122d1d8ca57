// The service behind real gRPC, over TCP.
#include "draft_service/serving/service.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "common/concurrency/system_clock.h"
#include "common/messages/handshake.h"
#include "common/messages/trace_context.h"
#include "common/telemetry/attributes.h"
#include "common/transport/server_host.h"
#include "tandem/internal/v1/draft.grpc.pb.h"
#include "tests/draft_service/harness.h"
#include "tests/support/fake_tracer.h"
#include "tests/support/scrape.h"
#include "tests/support/wait.h"

namespace tandem::draft_service {
namespace {

const std::vector<uint32_t> kPrompt = {1, 2, 3, 1, 2};

class DraftService : public ::testing::Test {
 protected:
  DraftService() : model_({}), tracer_(clock_) {
    Options options;
    options.vocabulary_size = 8;
    options.clock = &clock_;
    options.tracer = &tracer_;
    options.drafters = {ModelDrafterFactory(model_, {}), PromptLookupFactory()};
    auto service = Service::Create(options);
    TANDEM_CHECK_OK(service);
    service_ = *std::move(service);
    transport::ServerHostOptions host_options;
    host_options.listen_address = "127.0.0.1:0";
    host_options.services = {service_->grpc_service()};
    host_options.health_names = {"tandem.internal.v1.Draft"};
    auto host = transport::ServerHost::Start(host_options);
    TANDEM_CHECK_OK(host);
    host_ = *std::move(host);
    stub_ = internal::v1::Draft::NewStub(grpc::CreateChannel(
        absl::StrCat("127.0.0.1:", host_->port()), grpc::InsecureChannelCredentials()));
  }

  using Stream = grpc::ClientReaderWriter<internal::v1::DraftRequest, internal::v1::DraftReply>;

  std::unique_ptr<Stream> Connect(grpc::ClientContext& call) {
    auto stream = stub_->Propose(&call);
    internal::v1::DraftRequest hello;
    hello.mutable_hello()->set_protocol_revision(messages::kProtocolRevision);
    hello.mutable_hello()->set_client_id("orchestrator");
    stream->Write(hello);
    return stream;
  }

  const concurrency::SteadyClock clock_;
  testing::TableModel model_;
  testing::FakeTracer tracer_;
  std::unique_ptr<Service> service_;  // outlives the host
  std::unique_ptr<transport::ServerHost> host_;
  std::unique_ptr<internal::v1::Draft::Stub> stub_;
};

TEST_F(DraftService, DraftsAndEndsInOrder) {
  grpc::ClientContext call;
  auto stream = Connect(call);
  internal::v1::DraftReply reply;
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_TRUE(reply.has_welcome());
  stream->Write(MakeOpen(1, kPrompt));
  stream->Write(MakeOpen(2, kPrompt, "prompt-lookup"));
  stream->Write(MakeAdvance(1, 1, kPrompt, 5));
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.block().status(), internal::v1::STATUS_OK);
  EXPECT_EQ(reply.block().tokens_size(), 4);
  stream->Write(MakeAdvance(2, 1, kPrompt, 5, 2));
  ASSERT_TRUE(stream->Read(&reply));
  ASSERT_EQ(reply.block().tokens_size(), 2);
  EXPECT_EQ(reply.block().tokens(0), 3u);
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&reply));
  EXPECT_TRUE(stream->Finish().ok());
  // The device frees them after the stream has ended.
  EXPECT_TRUE(testing::WaitUntil([&] { return model_.live_caches() == 0; }));
}

TEST_F(DraftService, CancelledStreamLeavesNothing) {
  grpc::ClientContext call;
  auto stream = Connect(call);
  internal::v1::DraftReply reply;
  ASSERT_TRUE(stream->Read(&reply));
  stream->Write(MakeOpen(1, kPrompt));
  stream->Write(MakeAdvance(1, 1, kPrompt, 5));
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_TRUE(testing::WaitUntil([&] { return service_->active_sequences() == 1; }));
  call.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  // It learns of that in its own time.
  EXPECT_TRUE(testing::WaitUntil([&] { return service_->active_sequences() == 0; }));
}

// A client that has a Block finds what is told of it.
TEST_F(DraftService, TellsASpanAndMetrics) {
  grpc::ClientContext call;
  auto stream = Connect(call);
  stream->Write(MakeOpen(1, kPrompt));
  internal::v1::DraftRequest request = MakeAdvance(1, 1, kPrompt, 5);
  telemetry::SpanContext context;
  context.trace_id[0] = 1;
  context.span_id[0] = 2;
  context.flags = telemetry::SpanContext::kSampled;
  *request.mutable_advance()->mutable_trace() = messages::ToWire(context);
  stream->Write(request);
  internal::v1::DraftReply reply;
  ASSERT_TRUE(stream->Read(&reply));  // Welcome
  ASSERT_TRUE(stream->Read(&reply));
  const std::vector<testing::FakeSpan> spans = tracer_.Finished();
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].parent, context);
  EXPECT_EQ(static_cast<uint64_t>(spans[0].number(telemetry::kComputed)),
            reply.block().computed_us());
  EXPECT_LE(spans[0].ended, clock_.Now());
  const auto metrics = testing::ParseMetrics(service_->MetricsText());
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  EXPECT_EQ(metrics->Value("tandem:draft_blocks_total", {{"status", "OK"}}), 1);
  EXPECT_EQ(metrics->Value("tandem:draft_tokens_total"), reply.block().tokens_size());
  call.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(DraftService, DescribesItsLoad) {
  grpc::ClientContext call;
  auto stream = Connect(call);
  stream->Write(MakeOpen(1, kPrompt));
  stream->Write(MakeAdvance(1, 1, kPrompt, 5));
  internal::v1::DraftReply reply;
  ASSERT_TRUE(stream->Read(&reply));  // Welcome
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_GE(reply.block().load().passes(), 1u);
  v1::DescribeReply description;
  grpc::ClientContext describe;
  ASSERT_TRUE(stub_->Describe(&describe, {}, &description).ok());
  EXPECT_EQ(description.load().passes(), 4u);
  EXPECT_EQ(description.load().pass_rows(), 8u);
  EXPECT_EQ(description.load().free_slots(), 255u);
  call.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST(DraftServiceOptions, AreChecked) {
  Options options;
  options.default_drafter = "model";
  options.pass_rows = -1;
  absl::Status status = options.Validate();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("no drafter"), std::string::npos);
  EXPECT_NE(status.message().find("\"model\" is none of"), std::string::npos);
  EXPECT_NE(status.message().find("vocabulary_size"), std::string::npos);
  EXPECT_NE(status.message().find("pass_rows is -1, outside 0 to 65536"), std::string::npos);
}

}  // namespace
}  // namespace tandem::draft_service
