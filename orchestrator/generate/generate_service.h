// tandem.v1.Generation over gRPC: one front of the Generator. It authenticates callers and carries
// messages.
#pragma once

#include <atomic>
#include <cstddef>

#include "common/concurrency/clock.h"
#include "tandem/v1/generation.grpc.pb.h"

namespace tandem::security {
class BearerTokens;
}

namespace tandem::orchestrator {

class Generator;

// Thread-safe.
class GenerateService final : public v1::Generation::CallbackService {
 public:
  // All arguments outlive this object. `clock` is the generator's. `tokens` says who may call; null
  // means everybody.
  GenerateService(Generator& generator, const concurrency::Clock& clock,
                  security::BearerTokens* tokens);

  grpc::ServerWriteReactor<v1::GenerateReply>* Generate(
      grpc::CallbackServerContext* context, const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::DescribeRequest* request,
                                     v1::DescribeReply* reply) override;

  // The number of calls of Generate whose end has not reached their clients yet.
  size_t open_calls() const { return open_calls_; }

 private:
  class Handler;

  Generator& generator_;
  const concurrency::Clock& clock_;
  security::BearerTokens* const tokens_;
  std::atomic<size_t> open_calls_{0};
};

}  // namespace tandem::orchestrator
