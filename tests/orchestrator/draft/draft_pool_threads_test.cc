// A draft pool whose members change while many requests open, lose and close: nothing is asserted
// but the counts at the end, which a race or a lost close would spoil, and what the sanitizers see.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/concurrency/system_clock.h"
#include "gtest/gtest.h"
#include "orchestrator/draft/draft_pool.h"

namespace tandem::orchestrator {
namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 400;

// Greets and answers from inside Send. Every third one breaks, at once or later.
class EchoStream final : public transport::Sink<internal::v1::DraftRequest> {
 public:
  EchoStream(std::unique_ptr<transport::StreamHandler<internal::v1::DraftReply>> handler,
             bool breaks)
      : handler_(std::move(handler)), breaks_(breaks) {}

  bool Send(internal::v1::DraftRequest request) override {
    const int message = ++messages_;
    if (breaks_ && (message == 1 || message == 50)) handler_->OnDone(absl::UnavailableError("cut"));
    if (request.has_hello()) {
      internal::v1::DraftReply reply;
      reply.mutable_welcome()->set_model_id("small");
      handler_->OnMessage(reply);
    }
    Answer(request);
    for (const internal::v1::DraftRequest& next : request.next()) Answer(next);
    handler_->OnWritten(0);
    return true;
  }
  void Close(absl::Status) override {}
  size_t queued() const override { return 0; }

 private:
  void Answer(const internal::v1::DraftRequest& request) {
    if (!request.has_advance()) return;
    internal::v1::DraftReply reply;
    reply.mutable_block()->set_sequence(request.advance().sequence());
    reply.mutable_block()->set_status(internal::v1::STATUS_OK);
    reply.mutable_block()->set_round(request.advance().round());
    handler_->OnMessage(reply);
  }

  const std::unique_ptr<transport::StreamHandler<internal::v1::DraftReply>> handler_;
  const bool breaks_;
  std::atomic<int> messages_{0};
};

struct Counting final : DraftEvents {
  void OnDraftOpened(base::DraftAttempt, DraftLimits) override { ++opened; }
  void OnBlock(base::DraftAttempt, DraftReplyBlock) override { ++blocks; }
  void OnPrepared(base::DraftAttempt, std::vector<PreparedBlock>) override {}
  void OnDraftLost(base::DraftAttempt, DraftLoss, std::string) override { ++lost; }
  std::atomic<int> opened{0};
  std::atomic<int> blocks{0};
  std::atomic<int> lost{0};
};

TEST(DraftPoolThreads, MembersChangeUnderLoad) {
  concurrency::SteadyClock clock;
  std::atomic<int> streams{0};
  auto pool = std::make_shared<DraftPool>(
      [&streams](const PeerAddress& peer) {
        return std::make_shared<DraftClient>(
            peer, internal::v1::Hello(),
            [&streams](
                std::unique_ptr<transport::StreamHandler<internal::v1::DraftReply>> handler) {
              return std::make_shared<EchoStream>(std::move(handler), ++streams % 3 == 0);
            },
            [](const v1::Welcome&, std::function<void(absl::Status)> done) {
              done(absl::OkStatus());
            });
      },
      clock, DraftPoolOptions{absl::Microseconds(50), absl::Milliseconds(1), 1});
  std::atomic<bool> running{true};
  std::thread names([&] {
    for (int i = 0; running; ++i) {
      PeerList list;
      for (int peer = 0; peer < 4; ++peer) {
        if ((i >> peer) % 2 == 0) continue;
        const std::string address = "10.0.0." + std::to_string(peer) + ":1";
        list.peers.push_back({address, "drafts:1"});
      }
      pool->SetPeers(list);
      for (const v1::Peer& peer : pool->Peers()) EXPECT_LE(peer.sequences(), kThreads + 0u);
      pool->model_id();
    }
  });
  std::atomic<int> opened{0};
  std::atomic<int> blocks{0};
  std::atomic<int> lost{0};
  std::vector<std::thread> requests;
  for (int thread = 0; thread < kThreads; ++thread) {
    requests.emplace_back([&] {
      // Until there was a draft, however late the other thread begins.
      for (int round = 0; round < kRounds || blocks == 0; ++round) {
        auto events = std::make_shared<Counting>();
        auto session = pool->NewSession(events);
        for (int attempt = 1; attempt <= 3; ++attempt) {
          DraftOpen open;
          open.attempt = base::DraftAttempt{static_cast<uint64_t>(attempt)};
          session->Open(open);
          // Another thread may be at it.
          while (events->opened == 0 && events->lost == 0) std::this_thread::yield();
          DraftAdvance advance;
          advance.round = 1;
          advance.max_draft_tokens = 1;
          session->Advance(advance);
          opened += events->opened.exchange(0);
          lost += events->lost.exchange(0);
          blocks += events->blocks.exchange(0);
          session->GiveUp(attempt % 2 == 0 ? DraftLoss::kRefused : DraftLoss::kLost,
                          absl::ZeroDuration());
        }
      }
    });
  }
  for (std::thread& thread : requests) thread.join();
  running = false;
  names.join();
  EXPECT_GT(opened.load(), 0);
  EXPECT_GT(blocks.load(), 0);
  EXPECT_GT(lost.load(), 0);
  pool->SetPeers({});
  EXPECT_TRUE(pool->Peers().empty()) << "every sequence was closed";
}

}  // namespace
}  // namespace tandem::orchestrator
