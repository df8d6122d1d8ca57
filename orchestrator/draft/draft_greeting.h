// Asks a draft who it is before the first request needs it, and again from time to time.
//
// The first request opens the stream to a draft. Without this, a draft with another tokenizer
// would be found out by a request, long after the orchestrator said that it is ready. (It is ready
// all the same: a draft is never needed.) And Describe and metrics could not tell a draft that
// nobody uses from one that is gone.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/mutex.h"
#include "orchestrator/draft/draft_client.h"
#include "orchestrator/peers/connector.h"
#include "orchestrator/peers/retry_delay.h"
#include "tandem/v1/describe.pb.h"

namespace tandem::orchestrator {

struct DraftGreetingOptions {
  absl::Duration retry_min = absl::Milliseconds(100);
  absl::Duration retry_max = absl::Seconds(5);
  absl::Duration repeat = absl::Seconds(5);    // while it fits: is it still there?
  absl::Duration recheck = absl::Seconds(30);  // a draft may be replaced by one that fits
  uint64_t jitter_seed = 0;
};

// Thread-safe. It tells the client what it found (DraftClient::Greeted, Unanswered). What it waits
// for keeps it alive: it outlives the client by one answer or one wait.
class DraftGreeting : public std::enable_shared_from_this<DraftGreeting> {
 public:
  // `timers` outlive Stop.
  DraftGreeting(std::weak_ptr<DraftClient> client, DescribePeer describe, CheckWelcome check,
                concurrency::Timers& timers, DraftGreetingOptions options);

  // Call once.
  void Start() { Ask(); }
  // No timer is set any more. A question that is under way comes to nothing.
  void Stop();

 private:
  void Ask();
  void OnReply(const absl::StatusOr<v1::DescribeReply>& reply);
  void OnChecked(const v1::DescribeReply& described, const absl::Status& fits);
  void AskAfter(absl::Duration delay) TANDEM_REQUIRES(mutex_);

  const std::weak_ptr<DraftClient> client_;
  const DescribePeer describe_;
  const CheckWelcome check_;
  concurrency::Timers& timers_;
  const DraftGreetingOptions options_;

  concurrency::Mutex mutex_;
  RetryDelay retry_ TANDEM_GUARDED_BY(mutex_);
  bool stopped_ TANDEM_GUARDED_BY(mutex_) = false;
  concurrency::TimerId timer_ TANDEM_GUARDED_BY(mutex_) = 0;  // 0: none was set yet
};

}  // namespace tandem::orchestrator
