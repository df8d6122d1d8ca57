#include "draft_service/service.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "common/base/status_macros.h"
#include "common/concurrency/system_clock.h"
#include "common/messages/handshake.h"
#include "common/serving/describe.h"
#include "common/serving/executor_thread.h"
#include "common/transport/server_stream.h"
#include "draft_service/executor.h"
#include "draft_service/session.h"
#include "tandem/v1/draft.grpc.pb.h"

namespace tandem::draft_service {
namespace {

class ServiceImpl final : public Service, public v1::Draft::CallbackService {
 public:
  explicit ServiceImpl(const Options& options)
      : token_hash_(options.token_hash),
        executor_(options),
        context_(options, executor_),
        thread_("draft-device", executor_) {}

  grpc::Service* grpc_service() override { return this; }
  void Drain() override { executor_.Drain(); }
  void End() override { executor_.End(); }
  size_t active_sequences() const override { return executor_.active_sequences(); }
  absl::Duration busy_for() const override { return executor_.busy_for(); }
  std::string MetricsText() const override { return executor_.MetricsText(); }

  grpc::ServerBidiReactor<v1::DraftRequest, v1::DraftReply>* Propose(
      grpc::CallbackServerContext* call) override {
    return transport::ServeBidi<v1::DraftRequest, v1::DraftReply>(
        call, {}, [this](std::shared_ptr<BlockSink> sink) {
          return std::make_unique<Session>(context_, std::move(sink));
        });
  }

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* call,
                                     const v1::DescribeRequest* request,
                                     v1::DescribeReply* reply) override {
    return serving::Describe(*call, *request, context_.welcome, token_hash_, executor_.load(),
                             *reply);
  }

 private:
  const std::function<uint32_t(uint32_t token)> token_hash_;
  Executor executor_;
  SessionContext context_;
  serving::ExecutorThread<Executor> thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Service>> Service::Create(Options options) {
  TANDEM_RETURN_IF_ERROR(options.Validate());
  if (options.clock == nullptr) options.clock = &concurrency::SteadyClock::Default();
  if (options.instance_id.empty()) options.instance_id = messages::NewInstanceId();
  return std::make_unique<ServiceImpl>(options);
}

}  // namespace tandem::draft_service
