// tandem.v1.Generation: admits requests, runs each as a GenerateCall, and ends them all at a drain.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/concurrency/mutex.h"
#include "common/rpc/stream.h"
#include "common/tokenizer/tokenizer.h"
#include "orchestrator/generate/generate_call.h"
#include "orchestrator/generate/request_validation.h"
#include "tandem/v1/generation.grpc.pb.h"

namespace tandem::orchestrator {

// Thread-safe.
class GenerateService final : public v1::Generation::CallbackService {
 public:
  // `parts` outlive this object.
  GenerateService(GenerateParts parts, std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                  uint32_t most_active_requests, std::string instance_id);
  // After Drain, and after the server was shut down.
  ~GenerateService() override;

  grpc::ServerWriteReactor<v1::GenerateReply>* Generate(
      grpc::CallbackServerContext* context, const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::DescribeRequest* request,
                                     v1::DescribeReply* reply) override;

  // Refuses new requests, gives running ones `grace`, ends the rest with UNAVAILABLE, returns when
  // none is left.
  void Drain(absl::Duration grace);
  bool draining() const;
  size_t active_requests() const;

 private:
  class Handler;
  using Sink = GenerateCall::Sink;

  // Checks the request, and begins it. All errors are the call's status; nothing was begun then.
  absl::StatusOr<std::shared_ptr<GenerateCall>> Admit(const v1::GenerateRequest& request,
                                                      std::shared_ptr<Sink> sink,
                                                      absl::Duration deadline);
  absl::StatusOr<v1::Welcome> Target() const;
  absl::Status FillDescription(const v1::DescribeRequest& request, v1::DescribeReply& reply) const;

  absl::StatusOr<uint64_t> TakePlace();
  absl::Status Begin(uint64_t place, const std::shared_ptr<GenerateCall>& call,
                     v1::Started started);
  void LeavePlace(uint64_t place);

  const GenerateParts parts_;
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  const uint32_t most_active_requests_;
  const std::string instance_id_;

  mutable concurrency::Mutex mutex_;
  concurrency::CondVar left_;
  bool draining_ TANDEM_GUARDED_BY(mutex_) = false;
  uint64_t last_place_ TANDEM_GUARDED_BY(mutex_) = 0;
  // Active requests; null while one is being checked.
  std::map<uint64_t, std::shared_ptr<GenerateCall>> calls_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::orchestrator
