#include "target_service/service.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/concurrency/system_clock.h"
#include "common/messages/handshake.h"
#include "common/serving/describe.h"
#include "common/serving/executor_thread.h"
#include "common/telemetry/metrics_text.h"
#include "common/transport/raw_service.h"
#include "common/transport/server_stream.h"
#include "tandem/internal/v1/target.pb.h"
#include "target_service/answers/pass_watchers.h"
#include "target_service/executor.h"
#include "target_service/session.h"

namespace tandem::target_service {
namespace {

// After an orderly end nothing lingers, so a broken connection must not look like one.
constexpr absl::Duration kHalfCloseSettles = absl::Milliseconds(100);

class ServiceImpl final : public Service, public transport::RawService {
 public:
  ServiceImpl(const Options& options, std::unique_ptr<Engine> engine)
      : token_hash_(options.token_hash),
        model_name_(options.model_name),
        watchers_(options.tracer, *options.clock, options.model_name),
        executor_(options, std::move(engine), watchers_),
        context_(options, executor_) {
    executor_.MeasurePasses();
    thread_.emplace("target-device", executor_);
    Serve<internal::v1::TargetReply>(
        "/tandem.internal.v1.Target/Verify", [this](grpc::CallbackServerContext* call) {
          return transport::ServeRawBidi<internal::v1::TargetRequest, internal::v1::TargetReply>(
              call, {},
              [this](std::shared_ptr<VerdictSink> sink) {
                return std::make_unique<Session>(context_, std::move(sink));
              },
              kHalfCloseSettles);
        });
    Serve<v1::DescribeReply>("/tandem.internal.v1.Target/Describe",
                             [this](grpc::CallbackServerContext* call) {
                               return serving::Describe(call, context_.welcome, token_hash_,
                                                        [this] { return executor_.load(); });
                             });
  }

  grpc::Service* grpc_service() override { return this; }
  void Drain() override { executor_.Drain(); }
  void End() override { executor_.End(); }
  size_t active_sequences() const override { return executor_.active_sequences(); }
  size_t open_sequences() const override {
    const size_t active = executor_.active_sequences();
    return active - std::min(active, executor_.lingering_sequences());
  }
  absl::Status failure() const override { return executor_.failure(); }
  absl::Duration busy_for() const override { return executor_.busy_for(); }
  std::string MetricsText() const override {
    return telemetry::MetricsText(
        watchers_.metrics().Collect(executor_.load(), executor_.active_sequences(),
                                    executor_.engine_info()),
        {"target", std::string(base::Version()), context_.welcome.instance_id(), model_name_});
  }

 private:
  const std::function<uint32_t(uint32_t token)> token_hash_;
  const std::string model_name_;
  PassWatchers watchers_;
  Executor executor_;
  SessionContext context_;
  std::optional<serving::ExecutorThread<Executor>> thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Service>> Service::Create(Options options,
                                                         std::unique_ptr<Engine> engine) {
  TANDEM_CHECK(engine != nullptr);
  TANDEM_RETURN_IF_ERROR(options.Validate());
  if (static_cast<int>(options.max_draft_tokens) >= engine->info().max_rows) {
    return absl::InvalidArgumentError(absl::StrCat("max_draft_tokens is ", options.max_draft_tokens,
                                                   ": it must be below the most rows of a pass, ",
                                                   engine->info().max_rows));
  }
  if (options.clock == nullptr) options.clock = &concurrency::SteadyClock::Default();
  if (options.instance_id.empty()) options.instance_id = messages::NewInstanceId();
  auto service = std::make_unique<ServiceImpl>(options, std::move(engine));
  TANDEM_RETURN_IF_ERROR(service->failure());  // of the passes that were measured
  return service;
}

}  // namespace tandem::target_service
