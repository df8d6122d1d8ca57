// Draft services on the wire's level, and a pool over them, on one thread and a clock of the test's
// own.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/draft/draft_pool.h"
#include "tests/support/fake_clock.h"

namespace tandem::orchestrator {

// A draft as its client sees it.
struct FakeService {
  struct Stream final : transport::Sink<internal::v1::DraftRequest> {
    bool Send(internal::v1::DraftRequest request) override {
      last = std::move(request);
      handler->OnWritten(0);
      return true;
    }
    internal::v1::DraftRequest last;
    void Close(absl::Status) override {}
    size_t queued() const override { return 0; }
    std::unique_ptr<transport::StreamHandler<internal::v1::DraftReply>> handler;
  };

  OpenStream<internal::v1::DraftRequest, internal::v1::DraftReply> Opener() {
    return [this](std::unique_ptr<transport::StreamHandler<internal::v1::DraftReply>> handler) {
      auto stream = std::make_shared<Stream>();
      stream->handler = std::move(handler);
      streams.push_back(stream);
      return stream;
    };
  }
  void Welcome(const std::string& model, const std::vector<std::string>& drafters = {}) const {
    internal::v1::DraftReply reply;
    reply.mutable_welcome()->set_model_id(model);
    for (const std::string& name : drafters) reply.mutable_welcome()->add_drafters(name);
    streams.back()->handler->OnMessage(reply);
  }
  // One whose only drafter makes trees.
  void WelcomeWithTrees(uint32_t max_nodes) const {
    internal::v1::DraftReply reply;
    v1::Welcome& welcome = *reply.mutable_welcome();
    welcome.set_model_id("small");
    welcome.add_features("confidence");
    welcome.mutable_limits()->set_max_nodes(max_nodes);
    welcome.add_drafters("branches");
    welcome.add_tree_drafters("branches");
    streams.back()->handler->OnMessage(reply);
  }
  // An Advance, with a block.
  void Answer() const {
    internal::v1::DraftReply reply;
    reply.mutable_block()->set_status(internal::v1::STATUS_OK);
    streams.back()->handler->OnMessage(reply);
  }
  void ReportQueue(uint32_t rows) const {
    internal::v1::DraftReply reply;
    reply.mutable_block()->mutable_load()->set_queued_rows(rows);
    streams.back()->handler->OnMessage(reply);
  }
  void Cut() const { streams.back()->handler->OnDone(absl::UnavailableError("cut")); }

  std::vector<std::shared_ptr<Stream>> streams;
};

struct Deaf final : DraftEvents {
  void OnDraftOpened(base::DraftAttempt, DraftLimits) override { ++opened; }
  void OnBlock(base::DraftAttempt, DraftReplyBlock) override {}
  void OnPrepared(base::DraftAttempt, std::vector<PreparedBlock>) override {}
  void OnDraftLost(base::DraftAttempt, DraftLoss, std::string reason) override {
    ++lost;
    last_reason = std::move(reason);
  }
  int opened = 0;
  int lost = 0;
  std::string last_reason;
};

// Drafts "a:1", "b:1", … of the name "drafts:1".
struct Fixture {
  static PeerAddress Peer(size_t i) {
    return {std::string(1, static_cast<char>('a' + i)) + ":1", "drafts:1"};
  }
  // The first `drafts` of `services` are there from the start.
  explicit Fixture(size_t drafts, size_t count = 0) : services(std::max(drafts, count)) {
    pool = std::make_shared<DraftPool>(
        [this](const PeerAddress& peer) {
          ++made;
          return std::make_shared<DraftClient>(
              peer, internal::v1::Hello(), services[peer.address[0] - 'a'].Opener(),
              [this](const v1::Welcome&, std::function<void(absl::Status)> done) { done(fits); });
        },
        clock, DraftPoolOptions{absl::Milliseconds(20), absl::Seconds(2), 3});
    std::vector<size_t> present;
    for (size_t i = 0; i < drafts; ++i) present.push_back(i);
    Set(present);
  }
  void Set(const std::vector<size_t>& present, std::vector<std::string> problems = {}) {
    PeerList list{{}, std::move(problems)};
    for (size_t i : present) list.peers.push_back(Peer(i));
    pool->SetPeers(list);
  }
  static constexpr size_t kNowhere = 1000;
  // The draft that it went to.
  size_t TryOpen(DraftSession& session, uint64_t attempt = 1) {
    session.Close();
    const std::vector<uint32_t> before = Sequences();
    DraftOpen open;
    open.attempt = base::DraftAttempt{attempt};
    session.Open(open);
    const std::vector<uint32_t> after = Sequences();
    for (size_t i = 0; i < services.size(); ++i) {
      if (after[i] > before[i]) return i;
    }
    return kNowhere;
  }
  std::vector<uint32_t> Sequences() const {
    std::vector<uint32_t> sequences(services.size());
    for (const v1::Peer& peer : pool->Peers()) {
      sequences[static_cast<size_t>(peer.address()[0] - 'a')] = peer.sequences();
    }
    return sequences;
  }
  size_t Open(DraftSession& session, uint64_t attempt = 1) {
    const size_t at = TryOpen(session, attempt);
    EXPECT_NE(at, kNowhere) << "no sequence was opened";
    return at == kNowhere ? 0 : at;
  }
  std::unique_ptr<DraftSession> Session() { return pool->NewSession(events); }

  absl::Status fits;
  testing::FakeClock clock;
  std::vector<FakeService> services;
  int made = 0;  // clients
  std::shared_ptr<Deaf> events = std::make_shared<Deaf>();
  std::shared_ptr<DraftPool> pool;
};

}  // namespace tandem::orchestrator
