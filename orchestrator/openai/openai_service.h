// OpenAI's API over HTTP: one front of the Generator, beside the gRPC service. It authenticates
// callers, and carries requests and answers. docs/http.md is for its users.
//
//   POST /v1/chat/completions, /v1/completions, /tokenize, /detokenize
//   GET /v1/models, /v1/models/NAME, /health, /version, /metrics
//   GET /, /chat.js, /chat.css: the chat page (page/page.h)
//
// All but /health, /version and the page want a token where the orchestrator has tokens. Bodies are
// read and checked on the generator's workers, long ones on those for long prompts, and clients
// have turns there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/executor.h"
#include "common/http/handler.h"
#include "common/transport/byte_budget.h"
#include "orchestrator/generate/work_turns.h"
#include "orchestrator/openai/browser_guard.h"
#include "orchestrator/openai/completion_request.h"

namespace tandem::security {
class BearerTokens;
}

namespace tandem::tokenizer {
class ChatTemplate;
class Tokenizer;
}  // namespace tandem::tokenizer

namespace tandem::orchestrator {

class Generator;
struct Conversation;
struct WriterOptions;

struct OpenAiOptions {
  std::string model_name;  // what /v1/models says, and what requests name
  const tokenizer::ChatTemplate* chat_template = nullptr;  // null: the model has none; outlives all
  size_t max_request_bytes = 0;  // of bodies that are not checked yet, of all clients
  size_t max_answer_bytes = 0;   // of answers that are kept, of all clients
  BrowserGuard browser_guard;    // where there are no tokens
  size_t worker_threads = 1;     // of the executor
  // Long bodies are parsed and tokenised here, beside everything else; as the others if null.
  concurrency::Executor* long_prompt_workers = nullptr;  // outlives all
  size_t long_prompt_threads = 1;
  std::function<absl::Status()> ready;   // for /health
  std::function<std::string()> metrics;  // for /metrics
};

// Thread-safe.
class OpenAiService final : public http::Handler {
 public:
  // All references outlive this object; `clock` is the generator's. `tokens` null: everybody may
  // call.
  OpenAiService(OpenAiOptions options, Generator& generator,
                std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                const concurrency::Clock& clock, concurrency::Executor& workers,
                security::BearerTokens* tokens);

  // Requests for texts whose answers have not left yet.
  size_t open_calls() const { return open_calls_; }

  absl::Status OnHead(const http::Request& head) override;
  void OnRequest(http::Request request, std::shared_ptr<http::Reply> reply) override;
  http::Response Malformed(int code, absl::string_view reason) override;
  absl::StatusOr<std::shared_ptr<const void>> Hold(const std::string& client,
                                                   size_t bytes) override;

 private:
  std::optional<http::Response> RefuseByHead(const http::Request& head) const;
  void Complete(http::Request request, std::shared_ptr<http::Reply> reply);
  absl::Status Prepare(CompletionRequest& request, WriterOptions& writing) const;
  absl::StatusOr<CompletionRequest> Parse(const http::Request& request) const;
  absl::StatusOr<CompletionRequest> ParseConversation(const base::JsonValue& body) const;
  absl::StatusOr<std::vector<uint32_t>> IdsOf(const Conversation& conversation) const;
  v1::TokenizeReply Reply(const std::vector<uint32_t>& ids, bool with_bytes) const;
  void Tokens(http::Request request, const std::shared_ptr<http::Reply>& reply);
  http::Response Get(const http::Request& request) const;
  http::Response Health() const;
  uint32_t ContextLength() const;  // 0: no target has said it yet
  http::Response Models(absl::string_view path) const;
  std::string Echo(const v1::GenerateRequest& request) const;

  const OpenAiOptions options_;
  Generator& generator_;
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  const concurrency::Clock& clock_;
  security::BearerTokens* const tokens_;
  const int64_t started_at_;  // seconds since 1970
  transport::ByteBudget unchecked_;
  transport::ByteBudget answers_;
  std::atomic<size_t> open_calls_{0};
  WorkTurns turns_;
};

}  // namespace tandem::orchestrator
