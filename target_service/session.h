// One Verify stream: Hello, then Batches. Checks each Step and hands it to the device's thread, which
// answers it. No gRPC in here.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/transport/stream.h"
#include "tandem/v1/target.pb.h"
#include "target_service/clients.h"
#include "target_service/device_executor.h"
#include "target_service/engine/engine.h"
#include "target_service/options.h"
#include "target_service/step_check.h"

namespace tandem::target_service {

// What all streams of a service share.
struct SessionContext {
  SessionContext(const Options& options, DeviceExecutor& device);

  DeviceExecutor& device;
  Clients clients;
  v1::Welcome welcome;
  StepLimits limits;
};

// The Welcome of a target with these options and this engine.
v1::Welcome MakeWelcome(const Options& options, const EngineInfo& engine);

// | state    | Hello                  | Batch               | half-close                     |
// |----------|------------------------|---------------------|--------------------------------|
// | new      | Welcome → open         | FAILED_PRECONDITION | the stream ends with OK        |
// | open     | FAILED_PRECONDITION    | to the device       | all answered, then OK → ended  |
// | ended    | ignored                | ignored             | ignored                        |
class Session final : public transport::StreamHandler<v1::TargetRequest> {
 public:
  // `context` must outlive the session.
  Session(SessionContext& context, std::shared_ptr<VerdictSink> sink);
  ~Session() override;

  void OnMessage(v1::TargetRequest request) override;
  void OnHalfClose() override;
  void OnDone(absl::Status status) override;

 private:
  enum class State { kNew, kOpen, kEnded };

  void OnHello(const v1::Hello& hello);
  // `rest`: the Batch without its Steps.
  void OnBatch(google::protobuf::RepeatedPtrField<v1::Step> steps, const v1::Batch& rest);
  void End(absl::Status status);  // closes the stream
  void Forget(bool lingers);      // the device drops what it holds of it, now or later

  SessionContext& context_;
  const std::shared_ptr<VerdictSink> sink_;
  State state_ = State::kNew;
  std::string client_id_;
  StreamId stream_ = 0;  // 0: the device does not know it
};

}  // namespace tandem::target_service
