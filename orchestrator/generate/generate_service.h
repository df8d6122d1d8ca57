// tandem.v1.Generation: checks requests, admits them (admission.h), runs each as a GenerateCall, and ends
// them all at a drain. A request is checked as a whole before it waits: bad input never waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/concurrency/mutex.h"
#include "common/tokenizer/tokenizer.h"
#include "common/transport/stream.h"
#include "orchestrator/generate/admission.h"
#include "orchestrator/generate/generate_call.h"
#include "orchestrator/generate/request_validation.h"
#include "tandem/v1/generation.grpc.pb.h"

namespace tandem::orchestrator {

// Thread-safe.
class GenerateService final : public v1::Generation::CallbackService {
 public:
  // `parts` outlive this object.
  GenerateService(GenerateParts parts, std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                  const AdmissionOptions& admission, std::string instance_id);
  // After Drain, and after the server was shut down.
  ~GenerateService() override;

  grpc::ServerWriteReactor<v1::GenerateReply>* Generate(
      grpc::CallbackServerContext* context, const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::DescribeRequest* request,
                                     v1::DescribeReply* reply) override;

  // Refuses new requests and those that wait (they have not begun: another orchestrator can take them).
  // Running ones go on. Returns at once.
  void Refuse();
  // Refuse; gives running ones `grace`, ends the rest with UNAVAILABLE, returns when none is left.
  void Drain(absl::Duration grace);
  bool draining() const;
  size_t active_requests() const { return admission_->active(); }
  size_t waiting_requests() const { return admission_->waiting(); }
  size_t open_calls() const { return open_calls_; }

 private:
  class Handler;
  using Sink = GenerateCall::Sink;

  // Checks the request, and asks for its admission. `caller`: whether it may call at all. An error is the call's status, and nothing is left
  // of the request then; from here on the call ends by itself.
  absl::StatusOr<std::shared_ptr<GenerateCall>> Accept(const v1::GenerateRequest& request,
                                                       const absl::Status& caller,
                                                       const std::string& traceparent,
                                                       std::shared_ptr<Sink> sink,
                                                       absl::Duration deadline);
  absl::StatusOr<GenerationRequest> Check(const v1::GenerateRequest& request,
                                          const v1::Welcome& target) const;
  // Of a request that was checked against the target of this model.
  absl::StatusOr<v1::Started> MakeStarted(const std::string& checked_model_id,
                                          const GenerationRequest& request) const;
  absl::StatusOr<v1::Welcome> Target() const;
  absl::Status FillDescription(const v1::DescribeRequest& request, v1::DescribeReply& reply) const;

  absl::Status Enter(uint64_t id, const std::shared_ptr<GenerateCall>& call);
  void Leave(uint64_t id);

  const GenerateParts parts_;
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  const std::shared_ptr<Admission> admission_;
  const std::string instance_id_;
  std::atomic<size_t> open_calls_{0};
  std::atomic<uint64_t> last_id_{0};

  mutable concurrency::Mutex mutex_;
  concurrency::CondVar left_;
  bool draining_ TANDEM_GUARDED_BY(mutex_) = false;
  // Those that run and those that wait.
  std::map<uint64_t, std::shared_ptr<GenerateCall>> calls_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::orchestrator
