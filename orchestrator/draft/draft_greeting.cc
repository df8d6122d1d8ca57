#include "orchestrator/draft/draft_greeting.h"

#include <utility>

#include "orchestrator/peers/stream_end.h"

namespace tandem::orchestrator {

DraftGreeting::DraftGreeting(std::weak_ptr<DraftClient> client, DescribePeer describe,
                             CheckWelcome check, concurrency::Timers& timers,
                             DraftGreetingOptions options)
    : client_(std::move(client)),
      describe_(std::move(describe)),
      check_(std::move(check)),
      timers_(timers),
      options_(options),
      retry_(options.retry_min, options.retry_max, options.jitter_seed) {}

void DraftGreeting::Stop() {
  concurrency::MutexLock lock(mutex_);
  stopped_ = true;
  if (timer_ != 0) timers_.Cancel(timer_);
}

void DraftGreeting::Ask() {
  if (client_.expired()) return;
  describe_(v1::DescribeRequest(),
            [self = shared_from_this()](const absl::StatusOr<v1::DescribeReply>& reply) {
              self->OnReply(reply);
            });
}

void DraftGreeting::OnReply(const absl::StatusOr<v1::DescribeReply>& reply) {
  if (!reply.ok()) {
    if (const auto client = client_.lock()) {
      client->Unanswered(StreamEndReason(reply.status(), "tandem.internal.v1.Draft"));
    }
    concurrency::MutexLock lock(mutex_);
    return AskAfter(retry_.Next());
  }
  check_(reply->welcome(), [self = shared_from_this(), described = *reply](
                               const absl::Status& fits) { self->OnChecked(described, fits); });
}

void DraftGreeting::OnChecked(const v1::DescribeReply& described, const absl::Status& fits) {
  const std::shared_ptr<DraftClient> client = client_.lock();
  if (client == nullptr) return;
  client->Greeted(described, fits);
  concurrency::MutexLock lock(mutex_);
  retry_.Reset();
  AskAfter(fits.ok() ? options_.repeat : options_.recheck);
}

void DraftGreeting::AskAfter(absl::Duration delay) {
  if (stopped_) return;
  timer_ = timers_.After(delay, [self = shared_from_this()] { self->Ask(); });
}

}  // namespace tandem::orchestrator
