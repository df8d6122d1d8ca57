// A whole request, all its samples, as its client sees it: on one target's wire and a fake clock,
// without a draft.
//
//   CallFixture f(Request(3));
//   f.Begin();
//   f.Run();                       // to its end
//   EXPECT_EQ(f.last().usage().completion_tokens(), 96u);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/concurrency/instant.h"
#include "gtest/gtest.h"
#include "orchestrator/generate/generate_call.h"
#include "tests/orchestrator/harness/pool_harness.h"

namespace tandem::orchestrator {

class FakeSink final : public transport::Sink<v1::GenerateReply> {
 public:
  bool Send(v1::GenerateReply message) override {
    ++unwritten;
    sent.push_back(std::move(message));
    return true;
  }
  void Close(absl::Status status) override {
    if (!closed.has_value()) closed = std::move(status);
  }
  void Abort(absl::Status status) override {
    aborted = status;
    Close(std::move(status));
  }
  size_t queued() const override { return unwritten; }

  std::vector<v1::GenerateReply> sent;
  size_t unwritten = 0;
  std::optional<absl::Status> closed;
  std::optional<absl::Status> aborted;
};

class CallFixture {
 public:
  // Who watches the request; empty: nobody.
  using Watch = std::function<std::unique_ptr<RequestObserver>(const testing::FakeClock& clock)>;

  // `unread` null: the call is by itself.
  explicit CallFixture(GenerationRequest wanted, LoopOptions loop = {}, const Watch& watch = {},
                       std::shared_ptr<UnreadReplies> unread = nullptr)
      : request(std::move(wanted)), harness(1, loop), arrived(harness.clock.Now()) {
    parts_.loop = loop;
    parts_.unread = std::move(unread);
    parts_.verify = &harness.pool();
    parts_.timers = &harness.timers;
    parts_.clock = &harness.clock;
    parts_.token_bytes = [](uint32_t id) { return "<" + std::to_string(id) + ">"; };
    call = std::make_shared<GenerateCall>(
        parts_, [](const GenerationRequest&) { return std::make_unique<LetterDetokenizer>(); },
        sink, arrived, watch ? watch(harness.clock) : std::make_unique<RequestObserver>());
  }
  ~CallFixture() {
    if (call != nullptr && done == 0) call->Cancel(absl::CancelledError("the test is over"));
    harness.DeliverAll();
  }

  void Prepare() {
    ASSERT_TRUE(call->Prepare(
                        request, [](const GenerationRequest&) { return v1::Started(); },
                        [this](bool now) { paused.push_back(now); }, [this] { ++done; })
                    .ok());
  }
  // Is admitted.
  void Begin() {
    Prepare();
    call->OnDecided(absl::OkStatus(), absl::Milliseconds(3));
  }

  void Run(const std::function<bool()>& until = nullptr) {
    harness.Run([&] {
      if (reads) Read();
      return done > 0 || (until && until());
    });
  }
  void Read() {
    for (; sink->unwritten > 0; --sink->unwritten) call->OnWritten();
  }

  std::vector<uint32_t> Ids(uint32_t sample) const {
    std::vector<uint32_t> ids;
    for (const v1::GenerateReply& reply : sink->sent) {
      if (!reply.has_delta() || reply.delta().sample_index() != sample) continue;
      ids.insert(ids.end(), reply.delta().token_ids().begin(), reply.delta().token_ids().end());
    }
    return ids;
  }
  // The ids of that sample, asked for alone.
  std::vector<uint32_t> Alone(uint32_t sample) const {
    GenerationRequest one = request;
    one.samples = 1;
    one.sample_index += sample;
    return PlainIds(one);
  }
  const v1::Started& started() const { return sink->sent.front().started(); }
  const v1::Last& last() const { return sink->sent.back().last(); }
  size_t open_sequences() { return harness.target(0).sequences().size(); }

  const GenerationRequest request;
  PoolHarness harness;
  const concurrency::Instant arrived;
  const std::shared_ptr<FakeSink> sink = std::make_shared<FakeSink>();
  std::shared_ptr<GenerateCall> call;
  int done = 0;
  std::vector<bool> paused;  // as it was told
  bool reads = true;

 private:
  GenerateParts parts_;
};

}  // namespace tandem::orchestrator
