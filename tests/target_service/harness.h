// A target service without transport and without a thread: a test sends messages, runs the device
// by hand, and reads what came back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/acceptance/rule.h"
#include "common/base/check.h"
#include "common/concurrency/mutex.h"
#include "common/messages/handshake.h"
#include "common/sampling/distribution.h"
#include "common/sampling/token_history.h"
#include "common/speculation/prefix.h"
#include "common/speculation/sequence_options.h"
#include "target_service/answers/pass_watchers.h"
#include "target_service/engine/cpu/cpu_engine.h"
#include "target_service/executor.h"
#include "target_service/session.h"
#include "tests/support/fake_clock.h"
#include "tests/support/table_model.h"

namespace tandem::target_service {

// Thread-safe.
class RecordingSink final : public VerdictSink {
 public:
  bool Send(internal::v1::TargetReply message) override {
    concurrency::MutexLock lock(mutex_);
    if (closed_.has_value()) return false;
    max_bytes_ = std::max(max_bytes_, message.ByteSizeLong());
    if (message.has_welcome()) welcome_ = message.welcome();
    if (message.has_verdicts()) {
      load_ = message.verdicts().load();
      if (load_.cost_curve_size() > 0) ++curves_;
      if (message.verdicts().verdicts().empty()) ++reports_;
      for (const internal::v1::Verdict& verdict : message.verdicts().verdicts())
        verdicts_.push_back(verdict);
    }
    return true;
  }
  void Close(absl::Status status) override {
    concurrency::MutexLock lock(mutex_);
    if (!closed_.has_value()) closed_ = std::move(status);
  }
  size_t queued() const override { return 0; }

  std::vector<internal::v1::Verdict> Take() {
    concurrency::MutexLock lock(mutex_);
    return std::exchange(verdicts_, {});
  }
  std::optional<v1::Welcome> welcome() const {
    concurrency::MutexLock lock(mutex_);
    return welcome_;
  }
  std::optional<absl::Status> closed() const {
    concurrency::MutexLock lock(mutex_);
    return closed_;
  }
  // Reports with a cost curve, so far.
  int curves() const {
    concurrency::MutexLock lock(mutex_);
    return curves_;
  }
  // Reports without a verdict, so far.
  int reports() const {
    concurrency::MutexLock lock(mutex_);
    return reports_;
  }
  // Of the largest message.
  size_t max_bytes() const {
    concurrency::MutexLock lock(mutex_);
    return max_bytes_;
  }
  v1::Load load() const {
    concurrency::MutexLock lock(mutex_);
    return load_;
  }

 private:
  mutable concurrency::Mutex mutex_;
  std::optional<v1::Welcome> welcome_ TANDEM_GUARDED_BY(mutex_);
  std::vector<internal::v1::Verdict> verdicts_ TANDEM_GUARDED_BY(mutex_);
  v1::Load load_ TANDEM_GUARDED_BY(mutex_);
  int curves_ TANDEM_GUARDED_BY(mutex_) = 0;
  int reports_ TANDEM_GUARDED_BY(mutex_) = 0;
  size_t max_bytes_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Status> closed_ TANDEM_GUARDED_BY(mutex_);
};

inline internal::v1::SequenceOptions SampledOptions(uint64_t seed = 7, float temperature = 1) {
  internal::v1::SequenceOptions options;
  options.mutable_sampling()->set_temperature(temperature);
  options.set_rule(v1::RULE_SPECULATIVE);  // greedy at temperature 0
  options.set_seed(seed);
  options.set_prompt_tokens(1);
  options.set_max_length(200);
  return options;
}

// The first `keep` of `committed` are told by number, the rest by id.
inline internal::v1::Prefix MakePrefix(absl::Span<const uint32_t> committed, uint32_t keep = 0) {
  internal::v1::Prefix prefix;
  prefix.set_keep(keep);
  for (uint32_t token : committed.subspan(keep)) prefix.add_tokens(token);
  prefix.set_hash(speculation::PrefixHash(committed));
  return prefix;
}

inline internal::v1::Step MakeStep(uint64_t sequence, uint64_t round,
                                   absl::Span<const uint32_t> committed, uint32_t keep,
                                   absl::Span<const uint32_t> candidates = {}) {
  internal::v1::Step step;
  step.set_sequence(sequence);
  step.set_round(round);
  *step.mutable_prefix() = MakePrefix(committed, keep);
  step.mutable_candidates()->Add(candidates.begin(), candidates.end());
  return step;
}

inline internal::v1::Step FirstStep(
    uint64_t sequence, absl::Span<const uint32_t> prompt,
    absl::Span<const uint32_t> candidates = {},
    const internal::v1::SequenceOptions& options = SampledOptions()) {
  internal::v1::Step step = MakeStep(sequence, 1, prompt, 0, candidates);
  *step.mutable_options() = options;
  return step;
}

class Harness {
 public:
  struct Stream {
    std::shared_ptr<RecordingSink> sink;
    std::unique_ptr<Session> session;
  };

  explicit Harness(const Options& options = {}, testing::TableModelOptions model_options = {},
                   CpuEngineOptions engine_options = {}) {
    auto owned = std::make_unique<testing::TableModel>(std::move(model_options));
    model = owned.get();
    engine_options.clock = &clock;
    auto engine = CpuEngine::Create(engine_options, std::move(owned));
    TANDEM_CHECK_OK(engine);
    Serve(options, *std::move(engine));
  }
  // Without a model.
  Harness(const Options& options, std::unique_ptr<Engine> engine) {
    Serve(options, std::move(engine));
  }

  Stream Connect(const std::string& client = "orchestrator", uint64_t incarnation = 1) {
    Stream stream = ConnectWithoutHello();
    internal::v1::TargetRequest request;
    request.mutable_hello()->set_protocol_revision(messages::kProtocolRevision);
    request.mutable_hello()->set_client_id(client);
    request.mutable_hello()->set_incarnation(incarnation);
    stream.session->OnMessage(request);
    return stream;
  }
  Stream ConnectWithoutHello() {
    Stream stream;
    stream.sink = std::make_shared<RecordingSink>();
    stream.session = std::make_unique<Session>(*context, stream.sink);
    return stream;
  }

  static void Send(Stream& stream, const std::vector<internal::v1::Step>& steps,
                   const std::vector<uint64_t>& close = {}) {
    internal::v1::TargetRequest request;
    request.mutable_batch();
    for (const internal::v1::Step& step : steps) *request.mutable_batch()->add_steps() = step;
    for (uint64_t sequence : close) request.mutable_batch()->add_close(sequence);
    stream.session->OnMessage(std::move(request));
  }

  // Runs the device until nothing waits.
  void RunAll() {
    while (device->RunOnce()) {
    }
  }

  // Long enough for all that lingers.
  void WaitForLingering() {
    RunAll();  // what ends now lingers from now on
    clock.Advance(absl::Hours(1));
    RunAll();
  }

  // Sends one Step and returns its verdict.
  internal::v1::Verdict Ask(Stream& stream, const internal::v1::Step& step) {
    Send(stream, {step});
    RunAll();
    std::vector<internal::v1::Verdict> verdicts = stream.sink->Take();
    TANDEM_CHECK(verdicts.size() == 1) << verdicts.size() << " verdicts for one Step";
    return verdicts[0];
  }

  // What a verdict's entries must be, computed without any service.
  std::vector<acceptance::Entry> Expected(const internal::v1::SequenceOptions& options,
                                          std::vector<uint32_t> committed,
                                          const std::vector<uint32_t>& candidates) const {
    const speculation::SequenceSettings settings = SettingsOf(options);
    acceptance::JudgeInput input;
    input.rule = settings.rule;
    input.key = {options.seed(), options.sample_index(), static_cast<uint32_t>(committed.size())};
    input.leniency = settings.leniency.value_or(1);
    input.greedy = settings.sampling.greedy();
    std::vector<sampling::Distribution> p;
    for (size_t i = 0; i <= candidates.size(); ++i) {
      p.push_back(P(options, committed));
      if (i < candidates.size()) committed.push_back(candidates[i]);
    }
    input.p = p;
    input.candidates = candidates;
    return acceptance::Judge(input);
  }

  // p of the token after `context`, with a history that knows nothing of blocks: what plain
  // decoding draws from. Rule lenient at temperature 0: at temperature 1, as it is judged.
  sampling::Distribution P(const internal::v1::SequenceOptions& options,
                           const std::vector<uint32_t>& context) const {
    sampling::SamplingParameters parameters = SettingsOf(options).sampling;
    if (options.rule() == v1::RULE_LENIENT && parameters.greedy()) parameters.temperature = 1;
    sampling::TokenHistory history(options.prompt_tokens());
    history.Append(context);
    return sampling::MakeDistribution(LogitsAfter(context), model->info().vocabulary_size,
                                      parameters, history);
  }

  // What follows an id that is not a token can never stand; the target computes it behind a 0.
  std::vector<float> LogitsAfter(std::vector<uint32_t> context) const {
    for (uint32_t& token : context) token = token < model->info().vocabulary_size ? token : 0;
    return model->LogitsAfter(context);
  }

  speculation::SequenceSettings SettingsOf(const internal::v1::SequenceOptions& options) const {
    auto checked = speculation::CheckSequenceOptions(options, model->info().context_length,
                                                     model->info().vocabulary_size);
    auto* settings = std::get_if<speculation::SequenceSettings>(&checked);
    TANDEM_CHECK(settings != nullptr) << std::get<messages::Refusal>(checked).problem.message();
    return *settings;
  }

  testing::FakeClock clock;
  testing::TableModel* model = nullptr;  // owned by the engine; null: it has none
  std::unique_ptr<PassWatchers> watchers;
  std::unique_ptr<Executor> device;
  std::unique_ptr<SessionContext> context;

 private:
  void Serve(Options options, std::unique_ptr<Engine> engine) {
    options.clock = &clock;
    watchers = std::make_unique<PassWatchers>(options.tracer, clock, options.model_name);
    device = std::make_unique<Executor>(options, std::move(engine), *watchers);
    context = std::make_unique<SessionContext>(options, *device);
  }
};

// Bit for bit.
inline bool SameEntries(const internal::v1::Verdict& verdict,
                        const std::vector<acceptance::Entry>& expected) {
  if (verdict.entries_size() != static_cast<int>(expected.size())) return false;
  for (size_t i = 0; i < expected.size(); ++i) {
    const internal::v1::Entry& entry = verdict.entries(static_cast<int>(i));
    if (entry.accept_probability() != expected[i].accept_probability) return false;
    if (entry.has_next_token() != expected[i].next_token.has_value()) return false;
    if (entry.has_next_token() && entry.next_token() != *expected[i].next_token) return false;
  }
  return true;
}

}  // namespace tandem::target_service
