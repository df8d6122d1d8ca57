// The parts that all requests share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/concurrency/clock.h"
#include "orchestrator/accept/decide_function.h"
#include "orchestrator/generate/token_bytes.h"
#include "orchestrator/request/loop_options.h"
#include "orchestrator/request/request.h"
#include "orchestrator/request/request_observer.h"
#include "orchestrator/stream/unread_replies.h"
#include "tandem/v1/describe.pb.h"

namespace tandem::concurrency {
class Executor;
}

namespace tandem::tokenizer {
class ChatTemplate;
}

namespace tandem::orchestrator {

class CommonDrafters;
class CommonLength;
class DraftPool;
class TargetPool;

// Outlives all requests.
struct GenerateParts {
  std::string model_name;  // what the model is called over gRPC and HTTP
  LoopOptions loop;
  LengthMode length_mode = LengthMode::kAuto;  // of requests that name no length policy
  uint32_t prepare = 0;                        // of requests that leave it to policy auto
  std::vector<std::string> default_drafters;   // of requests that name none; empty: the draft's
  CommonLength* lengths = nullptr;             // what requests of policy auto learn together
  CommonDrafters* drafters = nullptr;          // what they learn of drafters
  uint32_t default_max_tokens = 0;  // of a request that sets none; 0: all that there is room for
  TargetPool* verify = nullptr;
  DraftPool* draft = nullptr;  // null: none is configured
  concurrency::Timers* timers = nullptr;
  const concurrency::Clock* clock = nullptr;
  const concurrency::Clock* cpu_clock = nullptr;  // as in LoopParts
  std::vector<WatchRequest> watchers;
  std::function<v1::SpeculationTotals()> speculation_totals;  // for Describe; may be empty
  DecideFunction decide;
  const tokenizer::ChatTemplate* chat_template = nullptr;  // null: the model has none
  TokenBytes token_bytes;                                  // the Generator sets it
  // What the clients of all calls have not read. Null: each call is by itself.
  std::shared_ptr<UnreadReplies> unread;
  // Requests are checked and begun here. If null, that happens on the thread that brings them.
  concurrency::Executor* workers = nullptr;
  size_t worker_threads = 1;  // of `workers`
  // Long prompts are tokenised here, beside everything else; as `workers` if null.
  concurrency::Executor* long_prompt_workers = nullptr;
  size_t long_prompt_threads = 1;
};

}  // namespace tandem::orchestrator
