// A pool that is used from many threads while its streams come and go: for the sanitizers, mostly.
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/concurrency/mutex.h"
#include "common/concurrency/system_clock.h"
#include "common/concurrency/worker_pool.h"
#include "gtest/gtest.h"
#include "orchestrator/verify/target_pool.h"
#include "tests/support/wait.h"

namespace tandem::orchestrator {
namespace {

using concurrency::MutexLock;

// Answers on a thread of its own, every Step with OK or NO_SLOT, and breaks when it is told to.
class Service {
 public:
  OpenStream<internal::v1::TargetRequest, internal::v1::TargetReply> Opener() {
    return [this](std::unique_ptr<transport::StreamHandler<internal::v1::TargetReply>> handler) {
      auto stream = std::make_shared<Stream>(*this, std::move(handler));
      ++streams_;
      MutexLock lock(mutex_);
      present_ = stream;
      return stream;
    };
  }
  void Cut() {
    std::shared_ptr<Stream> stream;
    {
      MutexLock lock(mutex_);
      stream = present_;
    }
    if (stream != nullptr) stream->Close(absl::UnavailableError("cut"));
  }
  // Does nothing until the promise is kept.
  void Hold(std::shared_future<void> until) {
    thread_.Post([until = std::move(until)] { until.wait(); });
  }
  int streams() const { return streams_; }
  int ended() const { return ended_; }

 private:
  class Stream final : public transport::Sink<internal::v1::TargetRequest>,
                       public std::enable_shared_from_this<Stream> {
   public:
    Stream(Service& service,
           std::unique_ptr<transport::StreamHandler<internal::v1::TargetReply>> handler)
        : service_(service), handler_(std::move(handler)) {}
    bool Send(internal::v1::TargetRequest message) override {
      return service_.thread_.Post([self = shared_from_this(), message = std::move(message)] {
        if (self->handler_ == nullptr) return;
        self->handler_->OnMessage(self->service_.Answer(message));
        self->handler_->OnWritten(0);
      });
    }
    void Close(absl::Status status) override {
      // Not the status itself: its count of references lies in a library that no sanitizer sees
      // into.
      service_.thread_.Post([self = shared_from_this(), code = status.code(),
                             message = std::string(status.message())] {
        auto handler = std::move(self->handler_);
        if (handler == nullptr) return;
        ++self->service_.ended_;
        handler->OnDone({code, message});
      });
    }
    size_t queued() const override { return 0; }

   private:
    Service& service_;
    std::unique_ptr<transport::StreamHandler<internal::v1::TargetReply>>
        handler_;  // on the service's thread
  };

  internal::v1::TargetReply Answer(const internal::v1::TargetRequest& request) {
    internal::v1::TargetReply reply;
    if (request.has_hello()) {
      reply.mutable_welcome()->set_model_id("model");
      return reply;
    }
    internal::v1::Verdicts& verdicts = *reply.mutable_verdicts();
    for (const internal::v1::Step& step : request.batch().steps()) {
      internal::v1::Verdict& verdict = *verdicts.add_verdicts();
      verdict.set_sequence(step.sequence());
      verdict.set_round(step.round());
      verdict.set_status(++steps_ % 5 == 0 ? internal::v1::STATUS_NO_SLOT
                                           : internal::v1::STATUS_OK);
    }
    verdicts.mutable_load()->set_free_slots(static_cast<uint32_t>(steps_ % 4));
    return reply;
  }

  std::atomic<int> steps_{0};
  std::atomic<int> streams_{0};
  std::atomic<int> ended_{0};
  concurrency::Mutex mutex_;
  std::shared_ptr<Stream> present_ TANDEM_GUARDED_BY(mutex_);
  concurrency::WorkerPool thread_{"service", 1};
};

// One request: does what it is told to by counting events.
class Guest final : public VerifyEvents {
 public:
  void OnVerifyReady() override { Tell(); }
  void OnSlotWanted() override {}
  void OnVerifyLost(base::Incarnation, std::string) override { Tell(); }
  void OnVerdict(base::Incarnation, VerifyReply) override { Tell(); }

  // Until anything was told since the last call.
  void Wait() {
    MutexLock lock(mutex_);
    while (!told_) told_something_.Wait(mutex_);
    told_ = false;
  }

 private:
  void Tell() {
    MutexLock lock(mutex_);
    told_ = true;
    told_something_.NotifyAll();
  }
  concurrency::Mutex mutex_;
  concurrency::CondVar told_something_;
  bool told_ TANDEM_GUARDED_BY(mutex_) = false;
};

class TargetPoolThreads : public ::testing::Test {
 protected:
  TargetPoolThreads() {
    for (int i = 0; i < 3; ++i) services_.push_back(std::make_unique<Service>());
    pool_ = std::make_shared<TargetPool>(
        [this](const PeerAddress& peer) {
          VerifyClientOptions options;
          options.target = peer;
          options.backoff_min = absl::Milliseconds(1);
          options.backoff_max = absl::Milliseconds(2);
          return std::make_shared<VerifyClient>(
              options, services_[peer.address[0] - 'a']->Opener(),
              [](const v1::Welcome&, std::function<void(absl::Status)> done) {
                done(absl::OkStatus());
              },
              timers_, clock_);
        },
        timers_, clock_,
        TargetPoolOptions{absl::Milliseconds(1), absl::Milliseconds(3), /*seed=*/1});
  }

  void SetPeers(const std::string& names) {
    PeerList list;
    for (char name : names) list.peers.push_back({std::string(1, name), std::string(1, name)});
    pool_->SetPeers(list);
  }

  // Requests on four threads, while `disturb` is called again and again on `disturbers` more.
  void Run(int disturbers, const std::function<void(size_t i)>& disturb) {
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < 4; ++t) threads.emplace_back([this, t] { Requests(t); });
    std::atomic<bool> over{false};
    std::vector<std::thread> others;
    for (int t = 0; t < disturbers; ++t) {
      others.emplace_back([&, t] {
        for (size_t i = t; !over; ++i) {
          disturb(i);
          (void)pool_->Ready();
          (void)pool_->welcome();
          (void)pool_->Peers();
          std::this_thread::yield();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    over = true;
    for (std::thread& thread : others) thread.join();
    EXPECT_EQ(pool_->waiting_sessions(), 0u);
    EXPECT_GT(seated_, 1000);
    pool_->Stop();
    for (const auto& service : services_) EXPECT_EQ(service->streams(), service->ended());
  }

  void Requests(uint32_t t) {
    for (uint64_t i = 0; i < 60; ++i) {
      auto guest = std::make_shared<Guest>();
      auto session = pool_->NewSession(guest, {.priority = t});
      for (uint64_t round = 1; round < 6;) {
        const SeekResult result = session->Seek();
        if (result.kind == SeekResult::Kind::kTarget) {
          ++seated_;
          VerifyStep step;
          step.round = round++;
          session->Submit(result.target.incarnation, std::move(step));
          (void)session->last_heard();
        }
        guest->Wait();
        const uint64_t what = (i + round + t) % 8;
        if (what == 7) {
          if (result.kind == SeekResult::Kind::kTarget) {
            session->GiveUp(result.target.incarnation, "no verdict");
            result.target.pace->Good();
          }
        } else if (what < 4) {
          session->Leave(static_cast<LeaveCause>(what == 2 ? 1 : what), absl::Milliseconds(1));
        } else if (what == 4) {
          session->Close();
        }
      }
    }
  }

  concurrency::SteadyClock clock_;
  std::vector<std::unique_ptr<Service>> services_;
  // Ends before the services: a timer may still close one of their streams that has ended.
  concurrency::ThreadTimers timers_{"timers"};
  std::shared_ptr<TargetPool> pool_;
  std::atomic<int> seated_{0};
};

TEST_F(TargetPoolThreads, ManySessionsWhileStreamsComeAndGo) {
  SetPeers("abc");
  Run(1, [&](size_t i) { services_[i % services_.size()]->Cut(); });
}

TEST_F(TargetPoolThreads, ManySessionsWhileTargetsComeAndGo) {
  const std::string lists[] = {"a", "abc", "cb", "b", "", "ca", "bac"};
  Run(2, [&](size_t i) {
    SetPeers(lists[i % 7]);
    if (i % 5 == 0) services_[i % services_.size()]->Cut();
  });
}

TEST_F(TargetPoolThreads, StopWaitsForStreamsOfTargetsThatHaveLeft) {
  SetPeers("a");
  ASSERT_TRUE(testing::WaitUntil([&] { return pool_->Ready().ok(); }));
  std::promise<void> go_on;
  services_[0]->Hold(go_on.get_future().share());
  SetPeers("");
  ASSERT_TRUE(pool_->Peers().empty());
  std::atomic<bool> stopped{false};
  std::thread stopping([&] {
    pool_->Stop();
    stopped = true;
  });
  EXPECT_FALSE(testing::WaitUntil([&] { return stopped.load(); }, absl::Milliseconds(200)));
  go_on.set_value();
  stopping.join();
  EXPECT_EQ(services_[0]->streams(), services_[0]->ended());
}

}  // namespace
}  // namespace tandem::orchestrator
