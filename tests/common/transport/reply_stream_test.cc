// Calls with one request and a stream of replies, in the process and over TCP.
#include "common/transport/reply_stream.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/transport/idle_guard.h"
#include "common/transport/raw_service.h"
#include "tandem/v1/generation.grpc.pb.h"
#include "tests/common/transport/watchdog.h"

namespace tandem::transport::reply_stream_test {
namespace {

using Request = v1::GenerateRequest;
using Reply = v1::GenerateReply;

Reply Delta(uint32_t token) {
  Reply reply;
  reply.mutable_delta()->add_token_ids(token);
  return reply;
}

// What the handler saw, and what it does.
struct Script {
  std::function<void(const Request&, Sink<Reply>&)> on_message;
  std::function<void(Sink<Reply>&)> on_written;
  absl::Status refused;                       // not OK: every call is, with it
  std::function<void(Sink<Reply>&)> on_made;  // before any message; empty: nothing
  std::vector<std::string> events;            // read after `done`
  std::vector<size_t> queued;                 // of each OnWritten
  std::promise<absl::Status> done;
  std::atomic<int> alive{0};
};

class Handler final : public StreamHandler<Request> {
 public:
  Handler(Script& script, std::shared_ptr<Sink<Reply>> sink)
      : script_(script), sink_(std::move(sink)) {
    ++script_.alive;
  }
  ~Handler() override { --script_.alive; }
  void OnMessage(Request request) override {
    script_.events.push_back("message");
    script_.on_message(request, *sink_);
  }
  void OnHalfClose() override { script_.events.push_back("half-close"); }
  void OnWritten(size_t queued) override {
    script_.queued.push_back(queued);
    if (script_.on_written != nullptr) script_.on_written(*sink_);
  }
  void OnDone(absl::Status status) override {
    script_.events.push_back("done");
    script_.done.set_value(status);
  }

 private:
  Script& script_;
  const std::shared_ptr<Sink<Reply>> sink_;
};

class Service final : public RawService {
 public:
  Service() {
    Serve<Reply>("/tandem.v1.Generation/Generate", [this](grpc::CallbackServerContext* context) {
      return ServeReplies<Request, Reply>(
          context, options, [this](std::shared_ptr<Sink<Reply>> sink) {
            if (!script.refused.ok()) sink->Close(script.refused);
            if (script.on_made != nullptr) script.on_made(*sink);
            return std::make_unique<Handler>(script, std::move(sink));
          });
    });
    Serve<v1::DescribeReply>(
        "/tandem.v1.Generation/Describe", [this](grpc::CallbackServerContext* context) {
          return ServeAnswer<v1::DescribeRequest, v1::DescribeReply>(
              context, script.refused,
              [](const v1::DescribeRequest& request, v1::DescribeReply& reply) {
                if (request.token_hashes_count() == 0) return absl::NotFoundError("none wanted");
                reply.add_token_hashes(request.token_hashes_from());
                return absl::OkStatus();
              });
        });
  }

  Script script;
  StreamOptions options;
};

class ReplyStreamTest : public ::testing::TestWithParam<bool> {
 protected:
  // With the script written.
  void Start() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    channel_ = GetParam() ? server_->InProcessChannel({})
                          : grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                                grpc::InsecureChannelCredentials());
    stub_ = v1::Generation::NewStub(channel_);
  }
  void TearDown() override {
    server_->Shutdown(std::chrono::system_clock::now());
    EXPECT_EQ(script_.alive, 0);
  }

  // The tokens of all deltas that come.
  static std::vector<uint32_t> ReadAll(grpc::ClientReader<Reply>& reader) {
    std::vector<uint32_t> tokens;
    Reply reply;
    while (reader.Read(&reply)) tokens.push_back(reply.delta().token_ids(0));
    return tokens;
  }

  const Watchdog watchdog_;
  const std::shared_ptr<IdleGuard> guard_ = IdleGuard::Get();
  Service service_;
  Script& script_ = service_.script;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Generation::Stub> stub_;
  grpc::ClientContext context_;
};

INSTANTIATE_TEST_SUITE_P(Transport, ReplyStreamTest, ::testing::Values(true, false),
                         [](const auto& info) { return info.param ? "InProcess" : "Tcp"; });

TEST_P(ReplyStreamTest, RequestThenRepliesInOrder) {
  script_.on_message = [](const Request& request, Sink<Reply>& sink) {
    for (uint32_t i = 0; i < request.max_tokens(); ++i) EXPECT_TRUE(sink.Send(Delta(i)));
    sink.Close(absl::OkStatus());
    EXPECT_FALSE(sink.Send(Delta(0)));
  };
  Request request;
  request.set_max_tokens(1000);
  Start();
  const auto reader = stub_->Generate(&context_, request);
  const std::vector<uint32_t> tokens = ReadAll(*reader);
  EXPECT_TRUE(reader->Finish().ok());
  ASSERT_EQ(tokens.size(), 1000u);
  for (uint32_t i = 0; i < 1000; ++i) ASSERT_EQ(tokens[i], i);
  EXPECT_TRUE(script_.done.get_future().get().ok());
  EXPECT_EQ(script_.events, (std::vector<std::string>{"message", "half-close", "done"}));
}

TEST_P(ReplyStreamTest, OnWrittenCountsDownTheQueue) {
  constexpr uint32_t kReplies = 50;
  // All are queued before the first is written.
  script_.on_made = [](Sink<Reply>& sink) {
    for (uint32_t i = 0; i < kReplies; ++i) sink.Send(Delta(i));
  };
  script_.on_message = [](const Request&, Sink<Reply>&) {};
  uint32_t written = 0;
  script_.on_written = [&written](Sink<Reply>& sink) {
    if (++written == kReplies) sink.Close(absl::OkStatus());
  };
  Start();
  const auto reader = stub_->Generate(&context_, {});
  EXPECT_EQ(ReadAll(*reader).size(), kReplies);
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_TRUE(script_.done.get_future().get().ok());
  // Once a message; nothing is added meanwhile, so what is left falls by one each time.
  ASSERT_EQ(script_.queued.size(), kReplies);
  for (uint32_t i = 0; i < kReplies; ++i) EXPECT_EQ(script_.queued[i], kReplies - 1 - i);
}

TEST_P(ReplyStreamTest, ACancelInTheMiddleReachesTheHandler) {
  script_.on_message = [](const Request&, Sink<Reply>& sink) { sink.Send(Delta(0)); };
  script_.on_written = [](Sink<Reply>& sink) { sink.Send(Delta(1)); };  // without end
  Start();
  const auto reader = stub_->Generate(&context_, {});
  Reply reply;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(reader->Read(&reply));
  context_.TryCancel();
  EXPECT_EQ(script_.done.get_future().get().code(), absl::StatusCode::kCancelled);
  ReadAll(*reader);
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_P(ReplyStreamTest, ARefusalBeforeAnyReply) {
  script_.on_message = [](const Request&, Sink<Reply>& sink) {
    sink.Close(absl::InvalidArgumentError("max_tokens: 7 is outside 1 to 6"));
  };
  Start();
  const auto reader = stub_->Generate(&context_, {});
  EXPECT_TRUE(ReadAll(*reader).empty());
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "max_tokens: 7 is outside 1 to 6");
}

// A handler that closes its sink when it is made.
TEST_P(ReplyStreamTest, WhoIsRefusedIsNotRead) {
  script_.refused = absl::UnauthenticatedError("no token");
  Start();
  Request request;
  request.set_text(std::string(1 << 20, 'x') + "more than gRPC reads of a message");
  const auto reader = stub_->Generate(&context_, request);
  EXPECT_TRUE(ReadAll(*reader).empty());
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(status.error_message(), "no token");
  EXPECT_FALSE(script_.done.get_future().get().ok());
  EXPECT_EQ(script_.events, std::vector<std::string>{"done"});
}

TEST_P(ReplyStreamTest, BytesThatAreNoRequestAreRefusedWithAReason) {
  Start();
  grpc::GenericStub stub(channel_);
  const grpc::Slice slice("\x0a\x7fxyz", 5);
  const grpc::ByteBuffer bytes(&slice, 1);
  for (const char* method : {"/tandem.v1.Generation/Generate", "/tandem.v1.Generation/Describe"}) {
    grpc::ClientContext context;
    grpc::ByteBuffer reply;
    std::promise<grpc::Status> done;
    stub.UnaryCall(&context, method, {}, &bytes, &reply,
                   [&done](const grpc::Status& status) { done.set_value(status); });
    const grpc::Status status = done.get_future().get();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_NE(status.error_message().find("at byte 0 of 5"), std::string::npos)
        << status.error_message();
  }
}

TEST_P(ReplyStreamTest, ACallWithOneReply) {
  Start();
  v1::DescribeRequest request;
  v1::DescribeReply reply;
  request.set_token_hashes_from(7);
  request.set_token_hashes_count(1);
  EXPECT_TRUE(stub_->Describe(&context_, request, &reply).ok());
  ASSERT_EQ(reply.token_hashes_size(), 1);
  EXPECT_EQ(reply.token_hashes(0), 7u);
  grpc::ClientContext again;
  request.set_token_hashes_count(0);
  EXPECT_EQ(stub_->Describe(&again, request, &reply).error_message(), "none wanted");
}

}  // namespace
}  // namespace tandem::transport::reply_stream_test
