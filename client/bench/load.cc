#include "client/bench/load.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "client/common/orchestrator_channel.h"
#include "common/concurrency/mutex.h"
#include "common/transport/channel.h"

namespace tandem::client {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr uint32_t kRequestsAChannel = 64;
constexpr uint32_t kMaxChannels = 16;
constexpr int kDeltasToBegin = 2;  // a draft reads its prompt for the second
// A service that refuses most requests may never let enough of them end well.
constexpr double kWindowsWithFailures = 3;
constexpr std::chrono::seconds kConnectWithin(5);
constexpr absl::Duration kTick = absl::Milliseconds(20);

double MillisecondsBetween(SteadyClock::time_point from, SteadyClock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

}  // namespace

class LoadSource::Running {
 public:
  Running(const LoadSource& source, const LoadPlan& plan) : source_(source), plan_(plan) {}

  LoadRun Run() {
    v1::Generation::StubInterface& stub = *source_.stubs_[0];
    for (uint32_t i = 0; i < plan_.concurrency; ++i) Start();
    WaitWhile([this]() TANDEM_REQUIRES(mutex_) { return begun_ < plan_.concurrency; });

    const std::optional<DeviceUse> before = AskDeviceUse(stub);
    const SteadyClock::time_point opened = SteadyClock::now();
    SetPhase(Phase::kWindow);
    const double min_ms = absl::ToDoubleMilliseconds(plan_.window);
    WaitWhile([&]() TANDEM_REQUIRES(mutex_) {
      const double ms = MillisecondsBetween(opened, SteadyClock::now());
      if (ms < min_ms) return true;
      if (!run_.failures.empty() && ms > kWindowsWithFailures * min_ms) return false;
      return ended_in_window_ < plan_.min_ended;
    });
    SetPhase(Phase::kTail);
    WaitWhile([this]() TANDEM_REQUIRES(mutex_) { return counted_running_ > 0; });
    SetPhase(Phase::kOver);
    const double counted_s = MillisecondsBetween(opened, SteadyClock::now()) / 1000;
    const std::optional<DeviceUse> after = AskDeviceUse(stub);
    Cut();
    concurrency::MutexLock lock(mutex_);
    run_.counted_s = counted_s;
    run_.device = Difference(before, after);
    return std::move(run_);
  }

 private:
  enum class Phase { kFilling, kWindow, kTail, kOver, kCut };

  // Lives until its call is over.
  class Call final : public grpc::ClientReadReactor<v1::GenerateReply> {
   public:
    Call(Running& owner, uint64_t index, bool counted)
        : owner_(owner),
          first_(index < owner.plan_.concurrency),
          counted_(counted),
          request_(owner.plan_.request(index)) {
      auto& stubs = owner_.source_.stubs_;
      started_ = SteadyClock::now();
      stubs[index % stubs.size()]->async()->Generate(&context_, &request_, this);
      StartRead(&reply_);
    }

    void Begin() { StartCall(); }
    void Cancel() { context_.TryCancel(); }
    bool counted() const { return counted_; }

    void OnReadDone(bool ok) override {
      if (!ok) return;
      if (reply_.has_delta() && reply_.delta().token_ids_size() > 0) {
        const int tokens = reply_.delta().token_ids_size();
        const SteadyClock::time_point now = SteadyClock::now();
        if (tokens_ == 0) {
          first_token_ = now;
          first_tokens_ = tokens;
        }
        if (++deltas_ == kDeltasToBegin && first_) owner_.Began();
        tokens_ += tokens;
        last_token_ = now;
        owner_.Tokens(tokens);
      } else if (reply_.has_last()) {
        complete_ = true;
        record_.last = std::move(*reply_.mutable_last());
      }
      reply_.Clear();
      StartRead(&reply_);
    }

    void OnDone(const grpc::Status& status) override {
      absl::Status end(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
      if (end.ok() && !complete_) {
        end = absl::InternalError("the stream ended without its last message");
      }
      if (deltas_ < kDeltasToBegin && first_) owner_.Began();  // and ended: nobody waits for it
      if (tokens_ == 0) {
        if (end.ok()) end = absl::InternalError("no token came");
      } else {
        record_.first_token_ms = MillisecondsBetween(started_, first_token_);
        if (tokens_ > first_tokens_) {
          record_.per_token_ms =
              MillisecondsBetween(first_token_, last_token_) / (tokens_ - first_tokens_);
        }
      }
      owner_.Ended(this, end, std::move(record_));
    }

   private:
    Running& owner_;
    const bool first_;  // one of those that the run begins with
    const bool counted_;
    const v1::GenerateRequest request_;
    grpc::ClientContext context_;
    v1::GenerateReply reply_;
    SteadyClock::time_point started_, first_token_, last_token_;
    int first_tokens_ = 0;  // in the first delta
    int tokens_ = 0;
    int deltas_ = 0;
    bool complete_ = false;
    RequestRecord record_;
  };

  void Start() TANDEM_EXCLUDES(mutex_) {
    uint64_t index = 0;
    bool counted = false;
    {
      concurrency::MutexLock lock(mutex_);
      if (phase_ == Phase::kCut) return;
      index = next_++;
      counted = phase_ == Phase::kWindow;
      ++inside_;
      if (counted) ++counted_running_;
    }
    Call* call = new Call(*this, index, counted);
    bool cut = false;
    {
      concurrency::MutexLock lock(mutex_);
      running_.insert(call);
      cut = phase_ == Phase::kCut;
      --inside_;
    }
    // It enters the set before it begins, because it may end at once. A context takes a TryCancel
    // before its call begins; after Begin the call may be gone.
    if (cut) call->Cancel();
    call->Begin();
  }

  // One of the first requests has written twice, or ended before.
  void Began() TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    ++begun_;
    if (begun_ == plan_.concurrency) changed_.NotifyAll();
  }

  void Tokens(int count) TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    if (phase_ == Phase::kWindow || phase_ == Phase::kTail) run_.tokens += count;
  }

  void Ended(Call* call, const absl::Status& status, RequestRecord record) TANDEM_EXCLUDES(mutex_) {
    const bool counted = call->counted();
    bool replace = false;
    {
      concurrency::MutexLock lock(mutex_);
      running_.erase(call);
      ++inside_;
      if (status.ok()) {
        if (phase_ == Phase::kWindow) ++ended_in_window_;
        if (counted) run_.requests.push_back(std::move(record));
        replace = phase_ != Phase::kCut;
      } else if (!(phase_ == Phase::kCut && absl::IsCancelled(status))) {
        Failures& failures = run_.failures[absl::StatusCodeToString(status.code())];
        if (++failures.count == 1) failures.first_message = std::string(status.message());
        ++to_replace_;
      }
      if (counted) --counted_running_;
    }
    delete call;
    if (replace) Start();
    concurrency::MutexLock lock(mutex_);
    --inside_;
    changed_.NotifyAll();  // under the lock: Run may return, and this be gone, once it has it
  }

  // Waits as long as `condition` holds, starts what replaces failed requests, and looks for a
  // signal.
  template <typename Condition>
  void WaitWhile(Condition condition) TANDEM_EXCLUDES(mutex_) {
    while (true) {
      uint64_t replacements = 0;
      {
        concurrency::MutexLock lock(mutex_);
        if (!condition()) return;
        changed_.WaitFor(mutex_, kTick);
      }
      if (plan_.cancelled && plan_.cancelled()) return;
      const SteadyClock::time_point now = SteadyClock::now();
      if (MillisecondsBetween(last_replacement_, now) < absl::ToDoubleMilliseconds(kTick)) continue;
      last_replacement_ = now;
      {
        concurrency::MutexLock lock(mutex_);
        replacements = std::exchange(to_replace_, 0);
      }
      for (; replacements > 0; --replacements) Start();
    }
  }

  void SetPhase(Phase phase) TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    phase_ = phase;
  }

  void Cut() TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    phase_ = Phase::kCut;
    // Under the lock, so that none of them is deleted meanwhile; TryCancel calls none of our code.
    for (Call* call : running_) call->Cancel();
    while (!running_.empty() || inside_ > 0) changed_.Wait(mutex_);
  }

  const LoadSource& source_;
  const LoadPlan& plan_;
  SteadyClock::time_point last_replacement_;  // of Run's thread

  concurrency::Mutex mutex_;
  concurrency::CondVar changed_;
  Phase phase_ TANDEM_GUARDED_BY(mutex_) = Phase::kFilling;
  LoadRun run_ TANDEM_GUARDED_BY(mutex_);
  std::unordered_set<Call*> running_ TANDEM_GUARDED_BY(mutex_);
  uint64_t next_ TANDEM_GUARDED_BY(mutex_) = 0;
  uint64_t begun_ TANDEM_GUARDED_BY(mutex_) = 0;
  int inside_ TANDEM_GUARDED_BY(mutex_) =
      0;  // reactions that are not in running_, and use this object
  uint64_t counted_running_ TANDEM_GUARDED_BY(mutex_) = 0;
  uint64_t ended_in_window_ TANDEM_GUARDED_BY(mutex_) = 0;
  uint64_t to_replace_ TANDEM_GUARDED_BY(mutex_) = 0;
};

// Neighbours in the order of requests, which may have like prompts, are far apart: multiples of the
// golden ratio.
uint32_t StaggeredTokens(uint64_t index, uint32_t concurrency, uint32_t max_tokens) {
  // One of the first requests writes all, too: at a concurrency of 1 it is the only one.
  if (index + 1 >= concurrency) return max_tokens;
  constexpr double kGolden = 0.6180339887498949;
  const double place = static_cast<double>(index + 1) * kGolden;
  const double share = place - std::floor(place);
  return std::max(2u, static_cast<uint32_t>(std::lround(share * max_tokens)));
}

LoadSource::LoadSource(const std::string& address, uint32_t max_concurrency,
                       const transport::ChannelSecurity& security) {
  const uint32_t channels =
      std::clamp((max_concurrency + kRequestsAChannel - 1) / kRequestsAChannel, 1u, kMaxChannels);
  const auto deadline = std::chrono::system_clock::now() + kConnectWithin;
  for (uint32_t i = 0; i < channels; ++i) {
    std::shared_ptr<grpc::Channel> channel = OrchestratorChannel(address, security);
    channel->WaitForConnected(deadline);
    stubs_.push_back(v1::Generation::NewStub(channel));
  }
}

LoadSource::~LoadSource() = default;

LoadRun LoadSource::Run(const LoadPlan& plan) { return Running(*this, plan).Run(); }

std::optional<DeviceUse> AskDeviceUse(v1::Generation::StubInterface& stub) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
  v1::DescribeReply reply;
  if (!stub.Describe(&context, {}, &reply).ok()) return std::nullopt;
  return DeviceUseOf(reply);
}

}  // namespace tandem::client
