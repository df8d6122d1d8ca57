// A draft service without transport and without a thread: a test sends messages, runs the drafting
// by hand, and reads what came back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/concurrency/mutex.h"
#include "common/messages/handshake.h"
#include "common/speculation/prefix.h"
#include "draft_service/drafters/model_drafter.h"
#include "draft_service/drafters/prompt_lookup.h"
#include "draft_service/serving/executor.h"
#include "draft_service/serving/session.h"
#include "tests/support/fake_clock.h"
#include "tests/support/random_drafter.h"
#include "tests/support/table_model.h"

namespace tandem::draft_service {

// Thread-safe.
class RecordingSink final : public BlockSink {
 public:
  bool Send(internal::v1::DraftReply message) override {
    concurrency::MutexLock lock(mutex_);
    if (closed_.has_value()) return false;
    if (message.has_welcome()) welcome_ = message.welcome();
    if (message.has_block()) blocks_.push_back(message.block());
    blocks_.insert(blocks_.end(), message.next().begin(), message.next().end());
    ++messages_;
    return true;
  }
  void Close(absl::Status status) override {
    concurrency::MutexLock lock(mutex_);
    if (!closed_.has_value()) closed_ = std::move(status);
  }
  size_t queued() const override { return 0; }

  std::vector<internal::v1::Block> Take() {
    concurrency::MutexLock lock(mutex_);
    return std::exchange(blocks_, {});
  }
  int messages() const {
    concurrency::MutexLock lock(mutex_);
    return messages_;
  }
  std::optional<v1::Welcome> welcome() const {
    concurrency::MutexLock lock(mutex_);
    return welcome_;
  }
  std::optional<absl::Status> closed() const {
    concurrency::MutexLock lock(mutex_);
    return closed_;
  }

 private:
  mutable concurrency::Mutex mutex_;
  std::optional<v1::Welcome> welcome_ TANDEM_GUARDED_BY(mutex_);
  std::vector<internal::v1::Block> blocks_ TANDEM_GUARDED_BY(mutex_);
  int messages_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Status> closed_ TANDEM_GUARDED_BY(mutex_);
};

inline internal::v1::SequenceOptions SampledOptions(uint64_t seed = 7, float temperature = 1) {
  internal::v1::SequenceOptions options;
  options.mutable_sampling()->set_temperature(temperature);
  options.set_rule(v1::RULE_SPECULATIVE);  // greedy at temperature 0
  options.set_seed(seed);
  options.set_max_length(200);
  return options;
}

// Every option is on. Vocabulary 8.
inline internal::v1::SequenceOptions AllWireOptions(uint64_t seed, v1::Rule rule,
                                                    float temperature = 0.9f) {
  internal::v1::SequenceOptions options = SampledOptions(seed, temperature);
  v1::SamplingOptions& sampling = *options.mutable_sampling();
  sampling.set_top_k(6);
  sampling.set_top_p(0.97f);
  sampling.set_min_p(0.01f);
  sampling.set_repetition_penalty(1.3f);
  sampling.set_presence_penalty(0.3f);
  sampling.set_frequency_penalty(0.4f);
  v1::LogitBias& bias = *sampling.add_logit_bias();
  bias.set_token(2);
  bias.set_bias(1.5f);
  sampling.add_banned_token_ids(6);
  for (uint32_t token : {0, 1, 2, 3, 4, 5, 7}) sampling.add_allowed_token_ids(token);
  sampling.set_min_tokens(6);
  options.add_stop_token_ids(0);
  options.add_stop_token_ids(3);
  options.set_rule(rule);
  if (rule == v1::RULE_LENIENT) options.set_leniency(0.5f);
  options.set_sample_index(static_cast<uint32_t>(seed % 3));
  options.set_prompt_tokens(static_cast<uint32_t>(seed % 7));
  return options;
}

inline internal::v1::Prefix MakePrefix(absl::Span<const uint32_t> committed, uint32_t keep) {
  internal::v1::Prefix prefix;
  prefix.set_keep(keep);
  for (uint32_t token : committed.subspan(keep)) prefix.add_tokens(token);
  prefix.set_hash(speculation::PrefixHash(committed));
  return prefix;
}

inline internal::v1::DraftRequest MakeOpen(
    uint64_t sequence, absl::Span<const uint32_t> prompt, const std::string& drafter = "",
    const internal::v1::SequenceOptions& options = SampledOptions(),
    v1::Proposal proposal = v1::PROPOSAL_UNSPECIFIED) {
  internal::v1::DraftRequest request;
  request.mutable_open()->set_sequence(sequence);
  *request.mutable_open()->mutable_options() = options;
  request.mutable_open()->set_drafter(drafter);
  request.mutable_open()->set_proposal(proposal);
  if (!prompt.empty()) *request.mutable_open()->mutable_prefix() = MakePrefix(prompt, 0);
  return request;
}

inline internal::v1::DraftRequest MakeAdvance(uint64_t sequence, uint64_t round,
                                              absl::Span<const uint32_t> committed, uint32_t keep,
                                              uint32_t max_draft_tokens = 4) {
  internal::v1::DraftRequest request;
  internal::v1::Advance& advance = *request.mutable_advance();
  advance.set_sequence(sequence);
  advance.set_round(round);
  *advance.mutable_prefix() = MakePrefix(committed, keep);
  advance.mutable_shape()->set_max_draft_tokens(max_draft_tokens);
  return request;
}

inline internal::v1::DraftRequest MakeLateAdvance(uint64_t sequence, uint64_t round,
                                                  absl::Span<const uint32_t> committed,
                                                  uint32_t keep, uint32_t max_draft_tokens,
                                                  absl::Duration wanted_within) {
  internal::v1::DraftRequest request =
      MakeAdvance(sequence, round, committed, keep, max_draft_tokens);
  request.mutable_advance()->mutable_shape()->set_wanted_within_us(
      static_cast<uint64_t>(absl::ToInt64Microseconds(wanted_within)));
  return request;
}

inline internal::v1::DraftRequest MakeClose(uint64_t sequence) {
  internal::v1::DraftRequest request;
  request.mutable_close()->set_sequence(sequence);
  return request;
}

class Harness {
 public:
  struct Stream {
    std::shared_ptr<RecordingSink> sink;
    std::unique_ptr<Session> session;

    void Send(const internal::v1::DraftRequest& request) { session->OnMessage(request); }
  };

  explicit Harness(Options options = {}, testing::TableModelOptions model_options = {})
      : model(std::move(model_options)) {
    options.clock = &clock;
    options.vocabulary_size = model.info().vocabulary_size;
    if (options.drafters.empty()) {
      options.drafters = {ModelDrafterFactory(model, {}), PromptLookupFactory(),
                          testing::RandomDrafterFactory({"random", options.vocabulary_size})};
    }
    executor = std::make_unique<Executor>(options);
    context = std::make_unique<SessionContext>(options, *executor);
  }

  Stream ConnectWithoutHello() {
    Stream stream;
    stream.sink = std::make_shared<RecordingSink>();
    stream.session = std::make_unique<Session>(*context, stream.sink);
    return stream;
  }
  Stream Connect(const std::string& client = "orchestrator") {
    Stream stream = ConnectWithoutHello();
    internal::v1::DraftRequest request;
    request.mutable_hello()->set_protocol_revision(messages::kProtocolRevision);
    request.mutable_hello()->set_client_id(client);
    request.mutable_hello()->set_incarnation(1);
    stream.Send(request);
    return stream;
  }

  void RunAll() {
    while (executor->RunOnce()) {
    }
  }

  internal::v1::Block Ask(Stream& stream, const internal::v1::DraftRequest& request) {
    stream.Send(request);
    RunAll();
    std::vector<internal::v1::Block> blocks = stream.sink->Take();
    TANDEM_CHECK(blocks.size() == 1) << blocks.size() << " Blocks for one Advance";
    return blocks[0];
  }

  testing::FakeClock clock;
  testing::TableModel model;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<SessionContext> context;
};

}  // namespace tandem::draft_service
