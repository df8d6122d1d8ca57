#include "draft_service/serving/service.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "common/base/status_macros.h"
#include "common/concurrency/system_clock.h"
#include "common/messages/handshake.h"
#include "common/serving/describe.h"
#include "common/serving/executor_thread.h"
#include "common/transport/raw_service.h"
#include "common/transport/server_stream.h"
#include "draft_service/serving/executor.h"
#include "draft_service/serving/session.h"
#include "tandem/internal/v1/draft.pb.h"

namespace tandem::draft_service {
namespace {

class ServiceImpl final : public Service, public transport::RawService {
 public:
  explicit ServiceImpl(const Options& options)
      : token_hash_(options.token_hash),
        executor_(options),
        context_(options, executor_),
        thread_("draft-device", executor_) {
    Serve<internal::v1::DraftReply>(
        "/tandem.internal.v1.Draft/Propose", [this](grpc::CallbackServerContext* call) {
          return transport::ServeRawBidi<internal::v1::DraftRequest, internal::v1::DraftReply>(
              call, {}, [this](std::shared_ptr<BlockSink> sink) {
                return std::make_unique<Session>(context_, std::move(sink));
              });
        });
    Serve<v1::DescribeReply>("/tandem.internal.v1.Draft/Describe",
                             [this](grpc::CallbackServerContext* call) {
                               return serving::Describe(call, context_.welcome, token_hash_,
                                                        [this] { return executor_.load(); });
                             });
  }

  grpc::Service* grpc_service() override { return this; }
  void Drain() override { executor_.Drain(); }
  void End() override { executor_.End(); }
  size_t active_sequences() const override { return executor_.active_sequences(); }
  absl::Status failure() const override { return executor_.failure(); }
  absl::Duration busy_for() const override { return executor_.busy_for(); }
  std::string MetricsText() const override { return executor_.MetricsText(); }

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
