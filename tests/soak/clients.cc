#include "tests/soak/clients.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/soak/expected_text.h"

namespace tandem::testing {

void Tally::Ended(const std::string& how) {
  concurrency::MutexLock lock(mutex_);
  ++endings_[how];
}

void Tally::Wrong(const std::string& what) {
  concurrency::MutexLock lock(mutex_);
  if (++wrong_ <= 10) ADD_FAILURE() << what;
}

void Tally::Add(const v1::AcceptanceRecord& record) {
  replays_ += record.target_replays();
  reconnections_ += record.draft_reconnections();
}

uint64_t Tally::count(const std::string& how) const {
  concurrency::MutexLock lock(mutex_);
  auto it = endings_.find(how);
  return it == endings_.end() ? 0 : it->second;
}

std::string Tally::Text() const {
  concurrency::MutexLock lock(mutex_);
  std::ostringstream text;
  for (const auto& [how, times] : endings_) text << how << " " << times << "  ";
  return text.str();
}

Client::Client(const std::shared_ptr<grpc::Channel>& channel, const TableModel& table, Tally& tally,
               uint64_t seed)
    : stub_(v1::Generation::NewStub(channel)), table_(table), tally_(tally), random_(seed) {}

void Client::Run(const std::atomic<bool>& stop) {
  while (!stop) {
    const Plan plan = MakePlan();
    Judge(plan, Send(plan));
  }
}

Client::Plan Client::MakePlan() {
  Plan plan;
  plan.request = MixedRequest(random_);
  if (random_() % 10 < 3) plan.cancel_after = static_cast<int>(random_() % 12);
  plan.slow = random_() % 6 == 0;
  plan.deadline = random_() % 12 == 0;
  return plan;
}

Client::Outcome Client::Send(const Plan& plan) {
  grpc::ClientContext context;
  if (plan.deadline) {
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(1 + random_() % 400));
  }
  auto reader = stub_->Generate(&context, plan.request);
  if (plan.cancel_after == 0) context.TryCancel();
  Outcome outcome;
  v1::GenerateReply message;
  int deltas = 0;
  while (reader->Read(&message)) {
    if (message.has_started()) ++outcome.starts;
    if (message.has_last()) {
      ++outcome.lasts;
      outcome.last = message.last();
    }
    if (!message.has_delta()) continue;
    const v1::Delta& delta = message.delta();
    outcome.ids.insert(outcome.ids.end(), delta.token_ids().begin(), delta.token_ids().end());
    outcome.text += delta.text();
    if (++deltas == plan.cancel_after) context.TryCancel();
    if (plan.slow) absl::SleepFor(absl::Milliseconds(random_() % 8));
  }
  outcome.status = reader->Finish();
  return outcome;
}

void Client::Judge(const Plan& plan, const Outcome& outcome) {
  const bool plain = IsPlain(plan.request);
  const ExpectedText expected = plain ? PlainText(table_, plan.request) : ExpectedText{};
  const std::vector<uint32_t>& ids = outcome.ids;
  auto wrong = [&](const std::string& what) {
    tally_.Wrong(absl::StrCat(what, "; status ", outcome.status.error_code(), " ",
                              outcome.status.error_message(), "; request ",
                              plan.request.ShortDebugString()));
  };
  if (outcome.starts > 1 || outcome.lasts > 1) wrong("more than one Started or Last");
  if (plain && (ids.size() > expected.ids.size() ||
                !std::equal(ids.begin(), ids.end(), expected.ids.begin()))) {
    wrong("other ids than the target's");
  }
  switch (outcome.status.error_code()) {
    case grpc::StatusCode::OK:
      tally_.Ended("ok");
      tally_.Add(outcome.last.speculation());
      if (outcome.starts != 1 || outcome.lasts != 1) wrong("OK without Started or Last");
      if (outcome.last.usage().completion_tokens() != ids.size())
        wrong("usage is not what was sent");
      if (plain && (ids != expected.ids || outcome.text != expected.text ||
                    outcome.last.finish_reason() != expected.finish)) {
        wrong(absl::StrCat("not the target's text: \"", outcome.text, "\" for \"", expected.text,
                           "\""));
      }
      return;
    case grpc::StatusCode::CANCELLED:
      tally_.Ended("cancelled");
      if (plan.cancel_after < 0) wrong("cancelled, but not by the client");
      return;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      tally_.Ended("deadline");
      if (!plan.deadline) wrong("a deadline that was not set");
      return;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      tally_.Ended("no slot");
      if (!plan.deadline) wrong("no slot, without a deadline");
      return;
    default:
      wrong("an end that nothing explains");
  }
}

}  // namespace tandem::testing
