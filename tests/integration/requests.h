// Requests to an orchestrator, many at once, and what came back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tandem/v1/generation.pb.h"

namespace grpc {
class Channel;
}

namespace tandem::testing {

// One of a request's texts.
struct SampleReply {
  std::string text;
  std::vector<uint32_t> ids;
  std::vector<float> logprobs;                // as many as ids, or none
  std::vector<v1::TopLogprobs> top_logprobs;  // likewise
};

// Of the prompt's tokens, from position 1 on.
struct PromptReply {
  std::vector<uint32_t> ids;
  std::vector<float> logprobs;       // as many
  std::vector<v1::TopLogprobs> top;  // as many, or none
};

struct Reply {
  absl::Status status;
  v1::Started started;
  std::string text;  // of sample 0, as the next
  std::vector<uint32_t> ids;
  std::vector<SampleReply> samples;     // by index; of those that anything came of
  PromptReply prompt;                   // empty unless asked for
  v1::Last last;                        // only when the status is OK
  std::vector<v1::RoundRecord> rounds;  // when they were asked for

  const v1::AcceptanceRecord& record() const { return last.speculation(); }
  // Rounds without a draft by this cause.
  uint32_t Rounds(const std::string& cause) const;
};

// Adds a message to what has come so far. What comes out of place (positions with a gap, fewer log
// probabilities than ids) makes the status INTERNAL.
void TakeReply(v1::GenerateReply message, Reply& reply);

// Sends one request and waits for its end. `on_delta` (may be empty) sees all that has come so far,
// after each delta, on this thread.
Reply Send(const std::shared_ptr<grpc::Channel>& channel, const v1::GenerateRequest& request,
           const std::function<void(const Reply& so_far)>& on_delta = {});

// Sends all of them over one channel, at most `at_once` at a time. Replies in the order of
// requests.
std::vector<Reply> SendAll(const std::shared_ptr<grpc::Channel>& channel,
                           absl::Span<const v1::GenerateRequest> requests, int at_once);

// Temperature 0, and `draft_tokens` draft tokens per round.
v1::GenerateRequest GreedyRequest(absl::Span<const uint32_t> prompt, uint32_t max_tokens,
                                  uint32_t draft_tokens, const std::string& drafter = "");

}  // namespace tandem::testing
