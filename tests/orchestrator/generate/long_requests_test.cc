// Long requests are parsed by the workers for them. The threads of the fronts, which also carry the
// rounds of others, hand them over.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/concurrency/executor.h"
#include "common/concurrency/mutex.h"
#include "common/concurrency/system_clock.h"
#include "common/concurrency/worker_pool.h"
#include "common/http/reply.h"
#include "common/http/request.h"
#include "common/transport/idle_guard.h"
#include "orchestrator/generate/generate_service.h"
#include "orchestrator/generate/generator.h"
#include "orchestrator/openai/openai_service.h"
#include "orchestrator/wiring.h"
#include "tests/support/wait.h"

namespace tandem::orchestrator {
namespace {

// Keeps tasks until the test runs them.
class HeldExecutor final : public concurrency::Executor {
 public:
  bool Post(concurrency::Task task) override {
    concurrency::MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
    return true;
  }
  size_t size() {
    concurrency::MutexLock lock(mutex_);
    return tasks_.size();
  }
  void RunAll() {
    std::vector<concurrency::Task> tasks;
    {
      concurrency::MutexLock lock(mutex_);
      tasks.swap(tasks_);
    }
    for (concurrency::Task& task : tasks) task();
  }

 private:
  concurrency::Mutex mutex_;
  std::vector<concurrency::Task> tasks_ TANDEM_GUARDED_BY(mutex_);
};

// Bytes that are not a message and no JSON: they are refused as soon as somebody parses them.
std::string Nonsense(size_t bytes) { return std::string(bytes, '\xff'); }

class LongRequests : public ::testing::Test {
 protected:
  LongRequests() {
    GenerateParts parts;
    parts.timers = &timers_;
    parts.clock = &clock_;
    parts.workers = &workers_;
    parts.long_prompt_workers = &held_;
    generator_ = std::make_unique<Generator>(std::move(parts), nullptr, AdmissionOptions(), "test");
  }
  ~LongRequests() override { generator_->Drain(absl::ZeroDuration()); }

  const std::shared_ptr<transport::IdleGuard> guard_ = transport::IdleGuard::Get();
  concurrency::SteadyClock clock_;
  concurrency::ThreadTimers timers_;
  concurrency::WorkerPool workers_{"workers", 1};
  HeldExecutor held_;
  std::unique_ptr<Generator> generator_;
};

TEST_F(LongRequests, OfGrpcAreParsedByTheirWorkers) {
  GenerateService service(*generator_, clock_, /*tokens=*/nullptr, size_t{64} << 20);
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  grpc::GenericStub stub(server->InProcessChannel({}));
  for (const char* method : {"Generate", "Tokenize", "Detokenize"}) {
    for (const size_t bytes : {kLongRequest, kLongRequest + 1}) {
      const bool is_long = bytes > kLongRequest;
      SCOPED_TRACE(std::string(method) + " of " + std::to_string(bytes) + " bytes");
      const grpc::Slice slice(Nonsense(bytes));
      const grpc::ByteBuffer request(&slice, 1);
      grpc::ClientContext context;
      grpc::ByteBuffer reply;
      std::promise<grpc::Status> done;
      std::future<grpc::Status> status = done.get_future();
      stub.UnaryCall(&context, std::string("/tandem.v1.Generation/") + method, {}, &request, &reply,
                     [&done](const grpc::Status& its) { done.set_value(its); });
      EXPECT_TRUE(testing::WaitUntil([&] {
        return held_.size() > 0 ||
               status.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
      }));
      EXPECT_EQ(held_.size(), is_long ? 1u : 0u);
      held_.RunAll();
      EXPECT_EQ(status.get().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    }
  }
  server->Shutdown();
}

TEST_F(LongRequests, OfGrpcHaveAsManyBytesAsOverHttp) {
  GenerateService service(*generator_, clock_, /*tokens=*/nullptr, size_t{256} << 20);
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxGrpcMessageBytes));
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  grpc::GenericStub stub(server->InProcessChannel({}));
  for (const char* method : {"Generate", "Tokenize", "Detokenize"}) {
    for (const size_t bytes : {kMaxRequestBytes, kMaxRequestBytes + 1, kMaxGrpcMessageBytes}) {
      SCOPED_TRACE(std::string(method) + " of " + std::to_string(bytes) + " bytes");
      const grpc::Slice slice(Nonsense(bytes));
      const grpc::ByteBuffer request(&slice, 1);
      grpc::ClientContext context;
      grpc::ByteBuffer reply;
      std::promise<grpc::Status> done;
      std::future<grpc::Status> status = done.get_future();
      stub.UnaryCall(&context, std::string("/tandem.v1.Generation/") + method, {}, &request, &reply,
                     [&done](const grpc::Status& its) { done.set_value(its); });
      EXPECT_TRUE(testing::WaitUntil([&] {
        held_.RunAll();
        return status.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
      }));
      const grpc::Status its = status.get();
      EXPECT_EQ(its.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << its.error_message();
      EXPECT_EQ(its.error_message().find("at most 8388608") != std::string::npos,
                bytes > kMaxRequestBytes)
          << its.error_message();
    }
  }
  server->Shutdown();
}

class FakeReply final : public http::Reply {
 public:
  void Listen(std::shared_ptr<http::ReplyListener> listener) override {
    listener_ = std::move(listener);
  }
  void Respond(http::Response response) override { code_.set_value(response.code); }
  void Begin(http::Response response) override { code_.set_value(response.code); }
  void Write(std::string /*piece*/) override {}
  void End() override {}
  void Abort() override {}
  std::future<int> code() { return code_.get_future(); }
  // As the port does it, later.
  void Over() {
    if (listener_ != nullptr) std::exchange(listener_, nullptr)->OnOver(true);
  }

 private:
  std::promise<int> code_;
  std::shared_ptr<http::ReplyListener> listener_;
};

TEST_F(LongRequests, OfHttpAreParsedByTheirWorkers) {
  OpenAiOptions options;
  options.max_request_bytes = options.max_answer_bytes = size_t{64} << 20;
  options.long_prompt_workers = &held_;
  OpenAiService service(std::move(options), *generator_, nullptr, clock_, workers_,
                        /*tokens=*/nullptr);
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"}) {
    for (const size_t bytes : {kLongRequest, kLongRequest + 1}) {
      SCOPED_TRACE(std::string(path) + " of " + std::to_string(bytes) + " bytes");
      const auto reply = std::make_shared<FakeReply>();
      std::future<int> code = reply->code();
      http::Request request;
      request.method = "POST";
      request.path = path;
      request.client = "somebody";
      request.headers = {{"content-type", "application/json"}};
      request.body = Nonsense(bytes);
      service.OnRequest(std::move(request), reply);
      EXPECT_EQ(held_.size(), bytes > kLongRequest ? 1u : 0u);
      held_.RunAll();
      EXPECT_EQ(code.get(), 400);
      reply->Over();
    }
  }
}

}  // namespace
}  // namespace tandem::orchestrator
