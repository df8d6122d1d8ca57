// One Verify stream: Hello, then Batches (the states: common/serving/session.h). Checks each Step
// and hands it to the device's thread, which answers it. No gRPC in here.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/serving/session.h"
#include "tandem/internal/v1/target.pb.h"
#include "target_service/clients.h"
#include "target_service/engine/engine.h"
#include "target_service/events.h"
#include "target_service/executor.h"
#include "target_service/options.h"
#include "target_service/sequences/step_check.h"

namespace tandem::target_service {

// What all streams of a service share.
struct SessionContext {
  SessionContext(const Options& options, Executor& executor);

  Executor& executor;
  Clients clients;
  v1::Welcome welcome;
  StepLimits limits;
};

// The Welcome of a target with these options and this engine.
v1::Welcome MakeWelcome(const Options& options, const EngineInfo& engine);

class Session final : public serving::Session<internal::v1::TargetRequest, Executor> {
 public:
  // `context` must outlive the session.
  Session(SessionContext& context, std::shared_ptr<VerdictSink> sink);

 private:
  absl::Status Check(internal::v1::TargetRequest& message) override;
  // The client's older stream ends.
  absl::Status Admit(const internal::v1::Hello& hello, StreamId stream) override;
  // With the cost curve: a pass may take minutes, and no verdict comes before the first one is
  // over.
  void Greet(v1::Welcome& welcome) const override;
  void Handle(internal::v1::TargetRequest message) override;
  void Left(StreamId stream, const absl::Status& end) override;

  SessionContext& context_;
  std::string client_id_;  // once it was admitted
};

}  // namespace tandem::target_service
