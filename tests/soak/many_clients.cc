#include "tests/soak/many_clients.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/transport/channel.h"
#include "tests/soak/expected_text.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

constexpr uint32_t kMaxPriority = 10;
constexpr uint32_t kLongText = 1500;  // tokens of a stuck reader's request
constexpr int kNarrowWindow = 1024;   // bytes on the way to a stuck reader
constexpr absl::Duration kPauseOfTheRefused = absl::Milliseconds(500);

// A channel that takes in little of what nobody reads.
std::shared_ptr<grpc::Channel> NarrowChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kNarrowWindow);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// A request that comes before its connection may end with UNAVAILABLE on a busy machine.
std::shared_ptr<grpc::Channel> Connected(std::shared_ptr<grpc::Channel> channel) {
  const auto deadline = std::chrono::system_clock::now() + std::chrono::minutes(1);
  TANDEM_CHECK(channel->WaitForConnected(deadline)) << "no connection";
  return channel;
}

}  // namespace

struct ManyClients::Plan {
  v1::GenerateRequest request;
  int cancel_after_deltas = -1;  // -1: never
  absl::Duration cancel_after = absl::InfiniteDuration();
  absl::Duration deadline = absl::InfiniteDuration();
  absl::Duration read_pause = absl::ZeroDuration();  // before each read
  bool stuck = false;                                // one long pause after the first deltas

  bool cancels() const {
    return cancel_after_deltas >= 0 || cancel_after < absl::InfiniteDuration();
  }
};

// What came of a request.
class EndedRequest {
 public:
  grpc::Status status;
  int starts = 0, lasts = 0, deltas = 0;
  v1::Last last;
  std::vector<uint32_t> ids;
  std::string text;
};

// Lives until its call and the timers that know it are over.
class ManyClients::Request final : public grpc::ClientReadReactor<v1::GenerateReply>,
                                   public std::enable_shared_from_this<ManyClients::Request> {
 public:
  Request(ManyClients& owner, Plan plan) : owner_(owner), plan_(std::move(plan)) {}

  void Begin(v1::Generation::Stub& stub) {
    self_ = shared_from_this();
    if (plan_.deadline < absl::InfiniteDuration()) {
      context_.set_deadline(absl::ToChronoTime(absl::Now() + plan_.deadline));
    }
    stub.async()->Generate(&context_, &plan_.request, this);
    StartRead(&reply_);
    if (plan_.cancel_after < absl::InfiniteDuration()) {
      owner_.timers_.After(plan_.cancel_after, [weak = weak_from_this()] {
        if (auto self = weak.lock()) self->context_.TryCancel();
      });
    }
    if (plan_.cancel_after_deltas == 0) context_.TryCancel();
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    absl::Duration pause = plan_.read_pause;
    if (reply_.has_started()) ++ended_.starts;
    if (reply_.has_last()) {
      ++ended_.lasts;
      ended_.last = std::move(*reply_.mutable_last());
    }
    if (reply_.has_delta()) {
      const v1::Delta& delta = reply_.delta();
      ended_.ids.insert(ended_.ids.end(), delta.token_ids().begin(), delta.token_ids().end());
      ended_.text += delta.text();
      owner_.tokens_ += delta.token_ids_size();
      if (++ended_.deltas == plan_.cancel_after_deltas) context_.TryCancel();
      if (plan_.stuck && ended_.deltas == 3) pause = owner_.options_.stuck;
    }
    reply_.Clear();
    if (pause == absl::ZeroDuration()) return StartRead(&reply_);
    AddHold();  // or the call might be over when the timer fires
    owner_.timers_.After(pause, [self = shared_from_this()] {
      self->StartRead(&self->reply_);
      self->RemoveHold();
    });
  }

  void OnDone(const grpc::Status& status) override {
    ended_.status = status;
    auto self = std::move(self_);
    owner_.Ended(plan_, ended_);
  }

 private:
  ManyClients& owner_;
  const Plan plan_;
  grpc::ClientContext context_;
  v1::GenerateReply reply_;
  EndedRequest ended_;
  std::shared_ptr<Request> self_;  // until OnDone
};

ManyClients::ManyClients(ManyClientsOptions options, const TableModel& table, Tally& tally)
    : options_(std::move(options)), table_(table), tally_(tally), random_(options_.seed) {
  for (int i = 0; i < options_.channels; ++i) {
    stubs_.push_back(v1::Generation::NewStub(Connected(transport::MakeChannel(options_.address))));
  }
  narrow_stub_ = v1::Generation::NewStub(Connected(NarrowChannel(options_.address)));
}

ManyClients::~ManyClients() = default;

void ManyClients::Start() {
  for (int i = 0; i < options_.clients; ++i) Next();
}

bool ManyClients::Stop(absl::Duration patience) {
  stop_ = true;
  return WaitUntil([&] { return running_ == 0; }, patience);
}

ManyClients::Plan ManyClients::MakePlan() {
  concurrency::MutexLock lock(mutex_);
  Plan plan;
  plan.request = MixedRequest(random_);
  plan.request.set_priority(static_cast<uint32_t>(random_() % (kMaxPriority + 1)));
  switch (random_() % 20) {
    case 0:
    case 1:
      plan.cancel_after_deltas = static_cast<int>(random_() % 12);
      break;
    case 2:
    case 3:
      plan.cancel_after = absl::Milliseconds(static_cast<int64_t>(random_() % 4000));
      break;
    case 4:
    case 5:
      plan.deadline = absl::Milliseconds(static_cast<int64_t>(1 + random_() % 4000));
      break;
    case 6:
    case 7:
      plan.read_pause = absl::Milliseconds(static_cast<int64_t>(1 + random_() % 30));
      break;
    case 8:
      if (options_.stuck == absl::ZeroDuration() || random_() % 4 != 0) break;
      plan.stuck = true;
      plan.request.set_max_tokens(kLongText);
      plan.request.clear_stop();
      break;
    default:
      break;
  }
  return plan;
}

void ManyClients::Next() {
  if (stop_) return;
  ++running_;
  const uint64_t index = started_++;
  Plan plan = MakePlan();
  v1::Generation::Stub& stub = plan.stuck ? *narrow_stub_ : *stubs_[index % stubs_.size()];
  std::make_shared<Request>(*this, std::move(plan))->Begin(stub);
}

void ManyClients::Ended(const Plan& plan, const EndedRequest& ended) {
  const std::vector<uint32_t>& ids = ended.ids;
  auto wrong = [&](const std::string& what) {
    tally_.Wrong(absl::StrCat(what, "; status ", ended.status.error_code(), " ",
                              ended.status.error_message(), "; request ",
                              plan.request.ShortDebugString()));
  };
  const bool plain = IsPlain(plan.request);
  const ExpectedText expected = plain ? PlainText(table_, plan.request) : ExpectedText{};
  if (plain && (ids.size() > expected.ids.size() ||
                !std::equal(ids.begin(), ids.end(), expected.ids.begin()))) {
    wrong("other ids than the target's");
  }
  if (ended.starts > 1 || ended.lasts > 1) wrong("more than one Started or Last");
  absl::Duration pause = absl::ZeroDuration();
  switch (ended.status.error_code()) {
    case grpc::StatusCode::OK:
      tally_.Ended("ok");
      tally_.Add(ended.last.speculation());
      if (ended.starts != 1 || ended.lasts != 1) wrong("OK without Started or Last");
      if (ended.last.usage().completion_tokens() != ids.size()) wrong("usage is not what was sent");
      if (plain && (ids != expected.ids || ended.text != expected.text ||
                    ended.last.finish_reason() != expected.finish)) {
        wrong(absl::StrCat("not the target's text: \"", ended.text, "\" for \"", expected.text,
                           "\""));
      }
      break;
    case grpc::StatusCode::CANCELLED:
      tally_.Ended("cancelled");
      if (!plan.cancels()) wrong("cancelled, but not by the client");
      break;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      tally_.Ended("deadline");
      if (plan.deadline == absl::InfiniteDuration()) wrong("a deadline that was not set");
      break;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      tally_.Ended("refused");
      if (!options_.may_be_refused && plan.deadline == absl::InfiniteDuration()) {
        wrong("no slot, without a deadline");
      }
      pause = kPauseOfTheRefused;
      break;
    case grpc::StatusCode::ABORTED:
      tally_.Ended("aborted");
      if (!plan.stuck) wrong("aborted, though it was read");
      break;
    default:
      tally_.Ended("other");
      wrong("an end that nothing explains");
  }
  if (pause == absl::ZeroDuration()) {
    Next();
  } else {
    timers_.After(pause, [this] { Next(); });
  }
  --running_;  // last: Stop may return, and this be gone
}

}  // namespace tandem::testing
