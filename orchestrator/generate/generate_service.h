// tandem.v1.Generation over gRPC: one front of the Generator. It authenticates callers and carries
// messages.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/concurrency/clock.h"
#include "common/transport/byte_budget.h"
#include "common/transport/raw_service.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::security {
class BearerTokens;
}

namespace tandem::orchestrator {

class Generator;
struct CallContext;
template <typename Request>
struct Unparsed;

// Thread-safe.
class GenerateService final : public transport::RawService {
 public:
  // All references outlive this object. `clock` is the generator's. `tokens` says who may call;
  // null means everybody. Who may not is refused before its request is read. `max_request_bytes`:
  // what the requests that are not checked yet may take in memory, all together, parsed or not; a
  // connection's may take a quarter of it.
  GenerateService(Generator& generator, const concurrency::Clock& clock,
                  security::BearerTokens* tokens, size_t max_request_bytes);

  // The number of calls of Generate whose end has not reached their clients yet.
  size_t open_calls() const { return open_calls_; }

 private:
  class Handler;

  Reactor<v1::GenerateReply>* Generate(grpc::CallbackServerContext* context);
  Reactor<v1::DescribeReply>* Describe(grpc::CallbackServerContext* context);
  Reactor<v1::ListModelsReply>* ListModels(grpc::CallbackServerContext* context);
  // A call with one answer, which the Generator gives in the client's turn.
  template <typename Request, typename Reply>
  Reactor<Reply>* Answer(absl::string_view method, grpc::CallbackServerContext* context,
                         void (Generator::*ask)(Unparsed<Request>, CallContext,
                                                std::function<void(absl::StatusOr<Reply>)>));
  CallContext Context(absl::string_view method, const grpc::CallbackServerContext& context) const;

  Generator& generator_;
  const concurrency::Clock& clock_;
  security::BearerTokens* const tokens_;
  transport::ByteBudget unchecked_;
  std::atomic<size_t> open_calls_{0};
};

}  // namespace tandem::orchestrator
