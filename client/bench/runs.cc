#include "client/bench/runs.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/bench/load.h"
#include "client/common/connection.h"
#include "common/base/status_macros.h"

namespace tandem::client {
namespace {

constexpr uint32_t kIdleTokens = 8;  // output tokens of a request whose first token is timed
constexpr int kBusyRequests = 3;     // they run one after the other; the last one counts
constexpr absl::Duration kWarmUp = absl::Milliseconds(500);

// On a terminal this is one line that changes; in a log each call writes a line.
void ShowProgress(const std::string& line, bool last) {
  if (isatty(STDERR_FILENO) != 0) {
    std::fprintf(stderr, "\r\033[K%s%s", line.c_str(), last ? "\n" : "");
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
}

v1::GenerateRequest MakeRequest(const BenchOptions& options, const v1::GenerateRequest& prompt) {
  v1::GenerateRequest request = prompt;
  request.set_max_tokens(static_cast<uint32_t>(options.max_tokens));
  // All write equally much; but behind the end of an answer a chat model writes what it is never
  // served for, and a draft guesses that too well.
  request.mutable_stop()->set_ignore_eos(!prompt.has_conversation());
  options.request.Apply(request);
  return request;
}

class Pairs {
 public:
  Pairs(const BenchOptions& options, v1::Generation::StubInterface& stub)
      : options_(options), stub_(stub) {}

  absl::StatusOr<BenchReport> Run(const std::vector<v1::GenerateRequest>& prompts) {
    std::vector<BenchPair> pairs;
    // One of each that does not count: pools, caches and peers get warm.
    TANDEM_RETURN_IF_ERROR(RunPair(prompts[0], false).status());
    const size_t all = prompts.size() * options_.repeats;
    for (uint64_t repeat = 0; repeat < options_.repeats; ++repeat) {
      for (const v1::GenerateRequest& prompt : prompts) {
        TANDEM_ASSIGN_OR_RETURN(BenchPair pair, RunPair(prompt, pairs.size() % 2 == 1));
        pairs.push_back(std::move(pair));
        if (isatty(STDERR_FILENO) == 0 && pairs.size() % prompts.size() != 0) continue;
        ShowProgress(absl::StrCat(pairs.size(), " of ", all, " pairs"), pairs.size() == all);
      }
    }
    if (differing_ > 0) {
      std::fprintf(stderr, "%d pairs wrote different texts (sampled texts may)\n", differing_);
    }
    return MakeReport(pairs, options_.Against());
  }

 private:
  absl::StatusOr<BenchPair> RunPair(const v1::GenerateRequest& prompt, bool turned) {
    const v1::GenerateRequest request = MakeRequest(options_, prompt);
    v1::GenerateRequest reference = request;
    options_.Against().Apply(reference);
    TANDEM_ASSIGN_OR_RETURN(Outcome a, Send(turned ? request : reference));
    TANDEM_ASSIGN_OR_RETURN(Outcome b, Send(turned ? reference : request));
    if (a.samples[0].token_ids != b.samples[0].token_ids) ++differing_;
    if (turned) std::swap(a, b);
    return BenchPair{std::move(a.last), std::move(b.last)};
  }

  absl::StatusOr<Outcome> Send(const v1::GenerateRequest& request) {
    Outcome outcome;
    TANDEM_RETURN_IF_ERROR(
        Generate(stub_, request, CallOptions(), outcome, [](const v1::GenerateReply&) {}));
    return outcome;
  }

  const BenchOptions& options_;
  v1::Generation::StubInterface& stub_;
  int differing_ = 0;
};

// INTERNAL if no request ended well: there is nothing to say about such a run.
absl::Status CheckRun(const LoadRun& run, const std::string& what) {
  if (WasCancelled()) return absl::CancelledError("cancelled");
  if (!run.requests.empty()) return absl::OkStatus();
  for (const auto& [name, failures] : run.failures) {
    return absl::UnavailableError(absl::StrCat(what, ": no request ended well; ", failures.count,
                                               " x ", name,
                                               ", the first: ", failures.first_message));
  }
  return absl::InternalError(absl::StrCat(what, ": no request ended"));
}

// The mode of a turn's n-th run. Each turn begins with another mode, so that no mode is always
// first.
size_t InTurn(uint64_t repeat, size_t n, size_t modes) { return (repeat + n) % modes; }

double FirstTokenMs(v1::Generation::StubInterface& stub, const v1::GenerateRequest& request,
                    absl::Status* status) {
  using SteadyClock = std::chrono::steady_clock;
  const SteadyClock::time_point start = SteadyClock::now();
  SteadyClock::time_point first;
  bool came = false;
  Outcome outcome;
  *status = Generate(stub, request, CallOptions(), outcome, [&](const v1::GenerateReply& reply) {
    if (came || reply.delta().token_ids().empty()) return;
    came = true;
    first = SteadyClock::now();
  });
  if (status->ok() && !came) *status = absl::InternalError("no token came");
  return std::chrono::duration<double, std::milli>(first - start).count();
}

// Returns CANCELLED after a signal.
absl::Status BeSilent(absl::Duration silence) {
  const absl::Time end = absl::Now() + silence;
  while (absl::Now() < end) {
    if (WasCancelled()) return absl::CancelledError("cancelled");
    absl::SleepFor(std::min(absl::Milliseconds(50), end - absl::Now()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BenchReport> RunPairs(const BenchOptions& options,
                                     const std::vector<v1::GenerateRequest>& prompts,
                                     v1::Generation::StubInterface& stub) {
  return Pairs(options, stub).Run(prompts);
}

absl::Status RunLoad(const BenchOptions& options, const std::vector<v1::GenerateRequest>& prompts,
                     std::vector<LoadTable>& tables) {
  const std::vector<BenchMode> modes = options.Modes();
  // The files were valid a moment ago, for the first connection.
  absl::StatusOr<transport::ChannelSecurity> security = SecurityOf(options.orchestrator);
  if (!security.ok()) return security.status();
  LoadSource source(options.orchestrator.address, options.concurrency.back(), *security);
  const size_t all = options.concurrency.size() * options.repeats * modes.size();
  size_t done = 0;
  std::fprintf(stderr, "%s\n", LoadDurationText(all, options.window).c_str());
  for (uint32_t concurrency : options.concurrency) {
    LoadTable& table = tables.emplace_back();
    table.concurrency = concurrency;
    for (const BenchMode& mode : modes) table.modes.push_back({mode, {}});
    auto run = [&](const BenchMode& mode, absl::Duration window, uint64_t ended) {
      LoadPlan plan;
      plan.concurrency = concurrency;
      plan.window = window;
      plan.min_ended = ended;
      plan.cancelled = WasCancelled;
      plan.request = [&options, &prompts, mode, concurrency](uint64_t index) {
        v1::GenerateRequest request = MakeRequest(options, prompts[index % prompts.size()]);
        request.set_max_tokens(StaggeredTokens(index, concurrency, request.max_tokens()));
        mode.Apply(request);
        return request;
      };
      return source.Run(plan);
    };
    // One of each that does not count: pools, caches and peers get warm.
    for (const BenchMode& mode : modes) run(mode, kWarmUp, 1);
    for (uint64_t repeat = 0; repeat < options.repeats; ++repeat) {
      for (size_t n = 0; n < modes.size(); ++n) {
        ModeRuns& runs = table.modes[InTurn(repeat, n, modes.size())];
        const std::string what = absl::StrCat("concurrency ", concurrency, ", ", runs.mode.Name());
        runs.runs.push_back(run(runs.mode, options.window, concurrency));
        TANDEM_RETURN_IF_ERROR(CheckRun(runs.runs.back(), what));
        ++done;
        ShowProgress(absl::StrFormat("%d of %d runs; %s: %.0f tokens/s", done, all, what,
                                     runs.runs.back().TokensPerSecond()),
                     done == all);
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<IdlePair>> RunIdle(const BenchOptions& options,
                                              const std::vector<v1::GenerateRequest>& prompts,
                                              v1::Generation::StubInterface& stub) {
  std::vector<IdlePair> pairs;
  absl::Status status;
  for (uint64_t i = 0; i < options.repeats; ++i) {
    v1::GenerateRequest request = MakeRequest(options, prompts[i % prompts.size()]);
    request.set_max_tokens(kIdleTokens);
    // The first request does not count. After it the prompt is equally well known in both cases.
    FirstTokenMs(stub, request, &status);
    TANDEM_RETURN_IF_ERROR(status);
    TANDEM_RETURN_IF_ERROR(BeSilent(options.silence));
    IdlePair pair;
    pair.after_silence = FirstTokenMs(stub, request, &status);
    TANDEM_RETURN_IF_ERROR(status);
    for (int n = 0; n < kBusyRequests; ++n) {
      pair.busy = FirstTokenMs(stub, request, &status);
      TANDEM_RETURN_IF_ERROR(status);
    }
    pairs.push_back(pair);
    ShowProgress(absl::StrCat(pairs.size(), " of ", options.repeats, " pairs"),
                 pairs.size() == options.repeats);
  }
  return pairs;
}

}  // namespace tandem::client
