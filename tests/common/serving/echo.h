// A small service on common/serving: it answers each Advance by a Block with its round, one in each
// Compute.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/concurrency/mutex.h"
#include "common/messages/handshake.h"
#include "common/serving/executor.h"
#include "common/serving/session.h"
#include "common/serving/welcome.h"
#include "tandem/internal/v1/draft.pb.h"
#include "tests/support/fake_clock.h"

namespace tandem::serving {

struct EchoStream : BaseStream<internal::v1::DraftReply> {};

struct Ask {
  StreamId stream{};
  uint64_t round = 0;
};

// Thread-safe.
class RecordingSink final : public transport::Sink<internal::v1::DraftReply> {
 public:
  bool Send(internal::v1::DraftReply reply) override {
    concurrency::MutexLock lock(mutex_);
    if (closed_.has_value()) return false;
    replies_.push_back(std::move(reply));
    return true;
  }
  void Close(absl::Status status) override {
    concurrency::MutexLock lock(mutex_);
    if (!closed_.has_value()) closed_ = std::move(status);
  }
  size_t queued() const override { return 0; }

  std::vector<internal::v1::DraftReply> Take() {
    concurrency::MutexLock lock(mutex_);
    return std::exchange(replies_, {});
  }
  std::optional<absl::Status> closed() const {
    concurrency::MutexLock lock(mutex_);
    return closed_;
  }

 private:
  mutable concurrency::Mutex mutex_;
  std::vector<internal::v1::DraftReply> replies_ TANDEM_GUARDED_BY(mutex_);
  std::optional<absl::Status> closed_ TANDEM_GUARDED_BY(mutex_);
};

class EchoExecutor final : public Executor<EchoStream, Ask> {
 public:
  explicit EchoExecutor(const concurrency::Clock& clock)
      : Executor<EchoStream, Ask>({.clock = &clock,
                                   .max_waiting = 3,
                                   .too_many = "too many",
                                   .shut_down = "it has shut down"}) {}

  // Until then nothing is computed.
  void HoldUp(bool held_up) { held_up_ = held_up; }
  const std::vector<std::pair<StreamId, bool>>& freed() const { return freed_; }  // may return
  int began() const { return began_; }

 private:
  void Began(EchoStream&) override { ++began_; }
  void Handle(Ask ask) override {
    EchoStream* const stream = streams().Find(ask.stream);
    if (stream == nullptr) return;
    stream->Owe();
    asks_.push_back(ask);
  }
  void Free(EchoStream& stream, bool may_return) override {
    std::erase_if(asks_, [&stream](const Ask& ask) { return ask.stream == stream.id; });
    freed_.emplace_back(stream.id, may_return);
  }
  bool Compute() override {
    const bool computes = !asks_.empty() && !held_up_;
    if (computes) {
      const Ask ask = asks_.front();
      asks_.pop_front();
      internal::v1::DraftReply reply;
      reply.mutable_block()->set_round(ask.round);
      EchoStream& stream = streams().At(ask.stream);
      stream.Pay();
      stream.sink->Send(std::move(reply));
    }
    EndFinished();
    return computes;
  }
  bool IsDone() override {
    held_up_ = false;
    return asks_.empty();
  }

  std::deque<Ask> asks_;
  bool held_up_ = false;
  int began_ = 0;
  std::vector<std::pair<StreamId, bool>> freed_;
};

class EchoSession final : public Session<internal::v1::DraftRequest, EchoExecutor> {
 public:
  EchoSession(EchoExecutor& executor, const v1::Welcome& welcome,
              std::shared_ptr<RecordingSink> sink)
      : Session<internal::v1::DraftRequest, EchoExecutor>(executor, welcome, std::move(sink)) {}

  absl::Status admission;                                       // the answer to each Hello
  std::vector<std::pair<StreamId, absl::StatusCode>> admitted;  // once it has left: with its end

 private:
  absl::Status Check(internal::v1::DraftRequest& message) override {
    return message.has_submitted() ? absl::InvalidArgumentError("no Submitted") : absl::OkStatus();
  }
  absl::Status Admit(const internal::v1::Hello& /*hello*/, StreamId /*stream*/) override {
    return admission;
  }
  void Handle(internal::v1::DraftRequest message) override {
    PushRequest(Ask{stream(), message.advance().round()});
  }
  void Left(StreamId stream, const absl::Status& end) override {
    admitted.emplace_back(stream, end.code());
  }
};

// A service, and streams to it.
struct Echo {
  struct Client {
    std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
    std::unique_ptr<EchoSession> session;

    void Hello(uint32_t revision = messages::kProtocolRevision) {
      internal::v1::DraftRequest request;
      request.mutable_hello()->set_protocol_revision(revision);
      request.mutable_hello()->set_client_id("client");
      request.mutable_hello()->set_incarnation(7);
      session->OnMessage(request);
    }
    void Ask(uint64_t round) {
      internal::v1::DraftRequest request;
      request.mutable_advance()->set_round(round);
      session->OnMessage(request);
    }
    std::vector<uint64_t> Rounds() {
      std::vector<uint64_t> rounds;
      for (const internal::v1::DraftReply& reply : sink->Take()) {
        if (reply.has_block()) rounds.push_back(reply.block().round());
      }
      return rounds;
    }
    // nullopt: open.
    std::optional<absl::StatusCode> ended() const {
      const std::optional<absl::Status> closed = sink->closed();
      return closed.has_value() ? std::optional(closed->code()) : std::nullopt;
    }
  };

  Client ConnectWithoutHello() {
    Client client;
    client.session = std::make_unique<EchoSession>(executor, welcome, client.sink);
    return client;
  }
  Client Connect() {
    Client client = ConnectWithoutHello();
    client.Hello();
    return client;
  }
  void RunAll() {
    while (executor.RunOnce()) {
    }
  }

  testing::FakeClock clock;
  v1::Welcome welcome = MakeWelcome({.instance_id = "echo"});
  EchoExecutor executor{clock};
};

}  // namespace tandem::serving
