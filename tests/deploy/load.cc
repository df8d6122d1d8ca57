#include "tests/deploy/load.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/common/orchestrator_channel.h"
#include "client/common/outcome.h"
#include "common/base/check.h"
#include "tandem/v1/generation.grpc.pb.h"
#include "tests/deploy/pod.h"
#include "tests/integration/models.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

// A hang becomes a failure.
constexpr absl::Duration kMaxOfARequest = absl::Minutes(2);

std::shared_ptr<grpc::Channel> Channel(const std::string& address, Retries retries) {
  if (retries == Retries::kAsTheCommand) return client::OrchestratorChannel(address);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1000);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetLoadBalancingPolicyName("round_robin");
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

absl::Status Ask(v1::Generation::Stub& stub, const v1::GenerateRequest& request,
                 client::Outcome& outcome) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoMilliseconds(kMaxOfARequest));
  auto reader = stub.Generate(&context, request);
  v1::GenerateReply reply;
  absl::Status sense;
  while (reader->Read(&reply)) {
    if (sense.ok()) sense = client::Collect(reply, 1, outcome);
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) {
    return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
  }
  return sense;
}

}  // namespace

std::vector<v1::GenerateRequest> DeterministicRequests() {
  const std::vector<std::string> prompts = TenPrompts();
  std::vector<v1::GenerateRequest> requests;
  for (uint32_t i = 0; i < 12; ++i) {
    v1::GenerateRequest request;
    request.set_text(prompts[i % prompts.size()]);
    request.set_max_tokens(i % 4 == 3 ? 240 : 16 + 24 * (i % 4));
    request.mutable_stop()->set_ignore_eos(true);
    request.set_seed(100 + i);
    request.mutable_sampling()->set_temperature(i % 2 == 0 ? 0.0f : 0.8f);
    request.mutable_speculation()->set_rule(i % 2 == 0 ? v1::RULE_GREEDY : v1::RULE_COUPLED);
    if (i % 3 == 1) request.mutable_speculation()->set_fixed(4);
    if (i % 6 == 5) request.mutable_speculation()->set_fixed(0);
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<std::vector<uint32_t>> UndisturbedIds(
    const std::string& address, const std::vector<v1::GenerateRequest>& requests) {
  auto stub = v1::Generation::NewStub(Channel(address, Retries::kAsTheCommand));
  std::vector<std::vector<uint32_t>> ids;
  for (const v1::GenerateRequest& request : requests) {
    client::Outcome outcome;
    TANDEM_CHECK_OK(Ask(*stub, request, outcome));
    TANDEM_CHECK(outcome.last.speculation().exact());
    ids.push_back(outcome.samples[0].token_ids);
  }
  return ids;
}

std::string LoadResult::Text() const {
  return absl::StrCat(requests, " requests, ", failed, " failed, ", wrong, " with other ids, ",
                      replays, " replays, ", reconnections, " reconnections of drafts, longest ",
                      absl::FormatDuration(absl::Trunc(longest, absl::Milliseconds(1))));
}

Load::Load(const std::string& address, int clients, std::vector<v1::GenerateRequest> requests,
           std::vector<std::vector<uint32_t>> expected, Retries retries)
    : address_(address),
      requests_(std::move(requests)),
      expected_(std::move(expected)),
      retries_(retries) {
  TANDEM_CHECK(requests_.size() == expected_.size());
  for (int i = 0; i < clients; ++i) threads_.emplace_back([this, i] { Run(i); });
}

Load::~Load() { Stop(); }

void Load::Run(int client) {
  auto stub = v1::Generation::NewStub(Channel(address_, retries_));
  for (size_t i = static_cast<size_t>(client); !stop_; ++i) {
    const size_t request = i % requests_.size();
    client::Outcome outcome;
    const absl::Time start = absl::Now();
    const absl::Status status = Ask(*stub, requests_[request], outcome);
    Count(request, status, outcome.samples[0].token_ids, outcome.last, absl::Now() - start);
  }
}

void Load::Count(size_t request, const absl::Status& status, const std::vector<uint32_t>& ids,
                 const v1::Last& last, absl::Duration took) {
  concurrency::MutexLock lock(mutex_);
  ++result_.requests;
  result_.longest = std::max(result_.longest, took);
  result_.replays += last.speculation().target_replays();
  result_.reconnections += last.speculation().draft_reconnections();
  if (status.ok() && ids == expected_[request]) return;
  ++(status.ok() ? result_.wrong : result_.failed);
  if (result_.troubles.size() >= 8) return;
  result_.troubles.push_back(absl::StrCat(SinceStart(), " request ", request, " after ",
                                          absl::FormatDuration(took), " and ", ids.size(), " of ",
                                          expected_[request].size(), " ids: ", status.ToString()));
}

bool Load::WaitForMore(uint64_t requests) const {
  const uint64_t before = SoFar().requests;
  return WaitUntil([&] { return SoFar().requests >= before + requests; }, absl::Minutes(2));
}

LoadResult Load::SoFar() const {
  concurrency::MutexLock lock(mutex_);
  return result_;
}

LoadResult Load::Stop() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  return SoFar();
}

}  // namespace tandem::testing
