// A target's streams, driven by any order of good, slightly wrong and arbitrary messages. Every
// Step of a stream that goes on gets exactly one verdict; an OK one has the entries that the rule
// gives; at the end every slot is given back.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/acceptance/tree.h"
#include "common/base/check.h"
#include "common/messages/handshake.h"
#include "common/speculation/candidate_tree_codec.h"
#include "common/speculation/prefix.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/target_options.h"
#include "tests/target_service/every_option.h"

namespace tandem::target_service {
namespace {

constexpr uint32_t kVocabulary = 8;
constexpr uint32_t kContext = 64;

testing::TableModelOptions ModelOptions(FuzzedDataProvider& data) {
  testing::TableModelOptions options;
  options.vocabulary_size = kVocabulary;
  options.context_length = kContext;
  options.max_rows = data.ConsumeIntegralInRange(10, 40);
  options.max_caches = data.ConsumeIntegralInRange(1, 5);
  return options;
}

Options ServiceOptions(FuzzedDataProvider& data) {
  Options options;
  options.max_sequences = data.ConsumeIntegralInRange(1u, 5u);
  options.max_draft_tokens = data.ConsumeIntegralInRange(1u, 8u);
  options.prefill_rows = data.ConsumeIntegralInRange(1u, 20u);
  return options;
}

constexpr uint64_t kSequences = 6;

using StepKey = std::pair<uint64_t, uint64_t>;  // sequence, round

// One stream, and what its client knows.
struct Client {
  struct Asked {
    int times = 0;
    int answered = 0;
    // When it was asked once, of a sequence that only good messages were sent about.
    std::optional<internal::v1::Step> step;
    std::vector<uint32_t> committed;
  };

  Harness::Stream stream;
  bool finished = false;  // it sends nothing more
  bool over = false;      // its transport is gone
  std::map<StepKey, Asked> asked;
  std::map<uint64_t, std::vector<uint32_t>> committed;  // of each sequence
  std::map<uint64_t, uint64_t> rounds;
};

class Run {
 public:
  explicit Run(FuzzedDataProvider& data)
      : data_(data), harness_(ServiceOptions(data), ModelOptions(data)) {
    for (uint64_t i = 0; i < kSequences; ++i) {
      options_.push_back(SomeOptions(data, kVocabulary, kContext, i));
      internal::v1::SequenceOptions& options = options_.back();
      if (acceptance::HasTrees(harness_.SettingsOf(options).rule) && data.ConsumeBool()) {
        options.set_max_nodes(data.ConsumeIntegralInRange(1u, 8u));
      }
    }
  }

  void All() {
    for (int i = 0; i < 300 && data_.remaining_bytes() > 0; ++i) Act();
    for (Client& client : clients_) End(client);
    Work();
    harness_.WaitForLingering();
    TANDEM_CHECK(harness_.device->active_sequences() == 0) << "slots are given back";
    TANDEM_CHECK(harness_.model->live_caches() == 0);
  }

 private:
  // What a sequence is always opened with, so that its verdicts can be foretold.
  const internal::v1::SequenceOptions& SettingsOf(uint64_t sequence) const {
    return options_[sequence];
  }

  void Act() {
    if (clients_.empty()) return Connect();
    Client& client =
        clients_[data_.ConsumeIntegralInRange<size_t>(0, std::min<size_t>(clients_.size(), 4) - 1)];
    switch (data_.ConsumeIntegralInRange(0, 15)) {
      case 0:
        if (clients_.size() < 4) Connect();
        break;
      case 1:
        SendArbitrary(client);
        break;
      case 2:
        Close(client);
        break;
      case 3:
        harness_.clock.Advance(absl::Microseconds(data_.ConsumeIntegralInRange(0, 3000)));
        break;
      case 4:
        if (data_.ConsumeIntegralInRange(0, 3) == 0) HalfClose(client);
        break;
      case 5:
        if (data_.ConsumeIntegralInRange(0, 3) == 0) Break(client);
        break;
      case 6:
        if (data_.ConsumeIntegralInRange(0, 30) == 0) harness_.device->Drain();
        break;
      case 7:
      case 8:
      case 9:
        harness_.device->RunOnce();
        Collect();
        break;
      default:
        SendSteps(client);
    }
  }

  void Connect() {
    Client client;
    const std::string name = data_.ConsumeBool() ? "one" : "two";
    client.stream = data_.ConsumeIntegralInRange(0, 7) == 0
                        ? harness_.ConnectWithoutHello()
                        : harness_.Connect(name, data_.ConsumeIntegralInRange(0, 9));
    clients_.push_back(std::move(client));
  }

  void SendSteps(Client& client) {
    internal::v1::TargetRequest request;
    const int steps = data_.ConsumeIntegralInRange(1, 3);
    std::vector<std::vector<uint32_t>> committed;
    for (int i = 0; i < steps; ++i) {
      committed.emplace_back();
      *request.mutable_batch()->add_steps() = AStep(client, committed.back());
    }
    Send(client, std::move(request), &committed);
  }

  internal::v1::Step AStep(Client& client, std::vector<uint32_t>& committed) {
    const uint64_t sequence = data_.ConsumeIntegralInRange<uint64_t>(0, kSequences - 1);
    std::vector<uint32_t>& told = client.committed[sequence];
    // As a client goes on: what it committed, cut somewhere or not, and some more.
    if (data_.ConsumeIntegralInRange(0, 7) == 0) {
      told.resize(data_.ConsumeIntegralInRange<size_t>(0, told.size()));
    }
    const uint32_t keep = static_cast<uint32_t>(
        data_.ConsumeIntegralInRange<size_t>(data_.ConsumeBool() ? told.size() : 0, told.size()));
    for (int more = data_.ConsumeIntegralInRange(0, 6); more > 0; --more) {
      if (told.size() < kContext) told.push_back(data_.ConsumeIntegralInRange(0u, kVocabulary - 1));
    }
    committed = told;
    std::vector<uint32_t> candidates(data_.ConsumeIntegralInRange<size_t>(0, 5));
    for (uint32_t& candidate : candidates) {
      candidate = data_.ConsumeIntegralInRange(0u, kVocabulary);
    }
    uint64_t& round = client.rounds[sequence];
    internal::v1::Step step = MakeStep(sequence, ++round, committed, keep, candidates);
    if (keep == 0) *step.mutable_options() = SettingsOf(sequence);
    step.set_prompt_logprobs(data_.ConsumeIntegralInRange(0, 3) == 0);
    if (SettingsOf(sequence).max_nodes() > 0 && data_.ConsumeBool()) {
      for (uint32_t i = 0; i < candidates.size(); ++i) {
        step.add_parents(data_.ConsumeIntegralInRange(0u, i));
      }
    }
    if (data_.ConsumeBool()) AddQ(step);
    if (data_.ConsumeIntegralInRange(0, 2) == 0) Spoil(step);
    return step;
  }

  void AddQ(internal::v1::Step& step) {
    for (uint32_t candidate : step.candidates()) {
      internal::v1::SparseDistribution& q = *step.add_q();
      const uint32_t pairs = data_.ConsumeIntegralInRange(0u, 4u);
      for (uint32_t i = 0; i < pairs; ++i) {
        q.add_ids((candidate + i * data_.ConsumeIntegralInRange(0u, 2u)) % (kVocabulary + 1));
        q.add_weights(data_.ConsumeIntegral<uint16_t>());
      }
      if (data_.ConsumeIntegralInRange(0, 7) == 0) q.add_ids(data_.ConsumeIntegral<uint32_t>());
    }
  }

  // Never so that a wrong prefix gets a right hash.
  void Spoil(internal::v1::Step& step) {
    internal::v1::Prefix& prefix = *step.mutable_prefix();
    switch (data_.ConsumeIntegralInRange(0, 13)) {
      case 0:
        prefix.set_hash(prefix.hash() + 1);
        break;
      case 1:
        prefix.set_keep(data_.ConsumeIntegral<uint32_t>());
        break;
      case 2:
        if (prefix.tokens_size() > 0) prefix.set_tokens(0, data_.ConsumeIntegral<uint32_t>());
        break;
      case 3:
        step.set_round(data_.ConsumeIntegralInRange<uint64_t>(0, 10));
        break;
      case 4:
        step.set_more(true);
        step.clear_candidates();
        step.clear_q();
        break;
      case 5:
        step.set_more(true);
        break;
      case 6:
        step.set_remaining_us(data_.ConsumeBool() ? data_.ConsumeIntegralInRange(1, 2000)
                                                  : data_.ConsumeIntegral<uint64_t>());
        break;
      case 7:
        step.clear_options();
        break;
      case 8:
        *step.mutable_options() = SettingsOf(step.sequence());
        break;
      case 9:
        step.add_candidates(data_.ConsumeIntegral<uint32_t>());
        break;
      case 10:
        step.add_parents(0);
        break;
      case 11:
        MakeChained(step);
        break;
      case 12:
        if (step.has_options()) SpoilOptions(data_, kVocabulary, kContext, *step.mutable_options());
        break;
      default:
        step.mutable_trace()->set_value(data_.ConsumeRandomLengthString(30));
    }
  }

  // A chained Step behind the sequence's last one, or nearly so.
  void MakeChained(internal::v1::Step& step) {
    if (data_.ConsumeIntegralInRange(0, 7) > 0) {
      const uint64_t sequence = step.sequence(), round = step.round();
      step.Clear();
      step.set_sequence(sequence);
      step.set_round(round);
    }
    step.set_after(step.round() - data_.ConsumeIntegralInRange<uint64_t>(0, 2));
    for (int blocks = data_.ConsumeIntegralInRange(1, 8); blocks > 0; --blocks) {
      internal::v1::PreparedBlock& block = *step.add_prepared();
      block.set_node(data_.ConsumeIntegralInRange(0u, 5u));
      block.set_next_token(data_.ConsumeIntegralInRange(0u, kVocabulary));
      for (int tokens = data_.ConsumeIntegralInRange(0, 4); tokens > 0; --tokens) {
        block.add_candidates(data_.ConsumeIntegralInRange(0u, kVocabulary));
      }
    }
  }

  void SendArbitrary(Client& client) {
    internal::v1::TargetRequest request;
    if (!request.ParseFromString(data_.ConsumeRandomLengthString(300))) return;
    for (const internal::v1::Step& step : request.batch().steps())
      unforetold_.insert(step.sequence());
    for (uint64_t sequence : request.batch().close()) unforetold_.insert(sequence);
    Send(client, std::move(request), nullptr);
  }

  void Send(Client& client, internal::v1::TargetRequest request,
            const std::vector<std::vector<uint32_t>>* committed) {
    if (client.finished || client.over || client.stream.sink->closed().has_value()) return;
    const internal::v1::TargetRequest sent = request;
    client.stream.session->OnMessage(std::move(request));
    for (int i = 0; i < sent.batch().steps_size(); ++i) {
      const internal::v1::Step& step = sent.batch().steps(i);
      Client::Asked& asked = client.asked[{step.sequence(), step.round()}];
      asked.step.reset();
      // Which block a chained Step goes on with is not foretold.
      if (++asked.times == 1 && committed != nullptr && step.prepared().empty()) {
        asked.step = step;
        asked.committed = (*committed)[static_cast<size_t>(i)];
      }
    }
  }

  void Close(Client& client) {
    internal::v1::TargetRequest request;
    request.mutable_batch()->add_close(data_.ConsumeIntegralInRange<uint64_t>(0, 6));
    Send(client, std::move(request), nullptr);
  }

  void HalfClose(Client& client) {
    if (client.over || std::exchange(client.finished, true)) return;
    client.stream.session->OnHalfClose();
  }

  void Break(Client& client) {
    if (!std::exchange(client.over, true)) {
      client.stream.session->OnDone(absl::CancelledError("cut"));
    }
  }

  void Work() {
    while (harness_.device->RunOnce()) {
    }
    Collect();
  }

  void Collect() {
    for (Client& client : clients_) {
      for (const internal::v1::Verdict& verdict : client.stream.sink->Take())
        CheckVerdict(client, verdict);
    }
  }

  void CheckVerdict(Client& client, const internal::v1::Verdict& verdict) {
    auto it = client.asked.find({verdict.sequence(), verdict.round()});
    TANDEM_CHECK(it != client.asked.end()) << "nobody asked: " << verdict.ShortDebugString();
    Client::Asked& asked = it->second;
    TANDEM_CHECK(++asked.answered <= asked.times) << verdict.ShortDebugString();
    TANDEM_CHECK(verdict.status() != internal::v1::STATUS_UNSPECIFIED);
    TANDEM_CHECK(verdict.status() == internal::v1::STATUS_OK || verdict.has_problem());
    TANDEM_CHECK(verdict.status() != internal::v1::STATUS_INTERNAL) << verdict.ShortDebugString();
    if (asked.step.has_value() && verdict.status() == internal::v1::STATUS_OK) {
      TANDEM_CHECK(asked.step->prefix().hash() == speculation::PrefixHash(asked.committed))
          << "a wrong hash is refused: " << asked.step->ShortDebugString();
    }
    if (verdict.status() != internal::v1::STATUS_OK) {
      TANDEM_CHECK(verdict.entries().empty());
    } else if (asked.step.has_value() && !unforetold_.contains(verdict.sequence())) {
      CheckEntries(*asked.step, asked.committed, verdict);
    }
  }

  void CheckEntries(const internal::v1::Step& step, const std::vector<uint32_t>& committed,
                    const internal::v1::Verdict& verdict) {
    std::vector<acceptance::Entry> entries;
    for (const internal::v1::Entry& entry : verdict.entries()) {
      entries.push_back({entry.accept_probability(), {}});
      if (entry.has_next_token()) entries.back().next_token = entry.next_token();
    }
    const internal::v1::SequenceOptions& options = SettingsOf(step.sequence());
    const speculation::CandidateTree tree = speculation::FromWire(step);
    if (!tree.parents.empty()) return CheckTree(tree, options, committed, verdict);
    const std::string wrong = WrongLogprobs(harness_, options, step, committed, verdict);
    TANDEM_CHECK(wrong.empty()) << "log probabilities " << wrong << ": "
                                << verdict.ShortDebugString() << " for " << step.ShortDebugString();
    if (step.more()) {
      TANDEM_CHECK(entries.empty());
      return;
    }
    TANDEM_CHECK_OK(acceptance::ValidateEntries(harness_.SettingsOf(options).rule, entries,
                                                step.candidates_size(), kVocabulary))
        << verdict.ShortDebugString();
    if (step.q_size() > 0) return;
    const std::vector<uint32_t> candidates(step.candidates().begin(), step.candidates().end());
    TANDEM_CHECK(SameEntries(verdict, harness_.Expected(options, committed, candidates)))
        << verdict.ShortDebugString() << " for " << step.ShortDebugString();
  }

  // Each node is judged as at the end of its own path.
  void CheckTree(const speculation::CandidateTree& tree,
                 const internal::v1::SequenceOptions& options,
                 const std::vector<uint32_t>& committed, const internal::v1::Verdict& verdict) {
    TANDEM_CHECK(!speculation::CheckCandidateTree(tree).has_value());
    TANDEM_CHECK(tree.size() <= options.max_nodes());
    std::vector<uint32_t> draws;
    for (size_t node = 0; node <= tree.size(); ++node) {
      std::vector<uint32_t> path;
      for (size_t at = node; at > 0; at = tree.parents[at - 1]) path.push_back(tree.tokens[at - 1]);
      std::vector<uint32_t> before = committed;
      before.insert(before.end(), path.rbegin(), path.rend());
      draws.push_back(*harness_.Expected(options, before, {})[0].next_token);
    }
    const auto expected = acceptance::JudgeTree(draws, tree.tokens, tree.parents);
    TANDEM_CHECK(SameEntries(verdict, expected)) << verdict.ShortDebugString();
    for (const internal::v1::Entry& entry : verdict.entries()) {
      TANDEM_CHECK(entry.has_logprobs() == options.has_logprobs());
    }
  }

  // An orderly end: all is answered, then the stream closes with OK.
  void End(Client& client) {
    const bool broken = client.over || client.stream.sink->closed().has_value();
    if (!broken) HalfClose(client);
    Work();
    if (!broken) TANDEM_CHECK(client.stream.sink->closed().has_value());
    if (!broken && client.stream.sink->closed()->ok()) {
      for (const auto& [key, asked] : client.asked) {
        TANDEM_CHECK(asked.answered == asked.times)
            << asked.answered << " verdicts for " << asked.times << " Steps of sequence "
            << key.first << ", round " << key.second;
      }
    }
    Break(client);
  }

  FuzzedDataProvider& data_;
  Harness harness_;
  std::vector<internal::v1::SequenceOptions> options_;  // of each sequence
  std::vector<Client> clients_;
  // Sequences of arbitrary messages; of all clients, for a newer stream takes them over.
  std::set<uint64_t> unforetold_;
};

}  // namespace
}  // namespace tandem::target_service

std::vector<std::string> tandem::fuzz::Seeds() {
  using namespace tandem::target_service;
  const std::vector<uint32_t> prompt = {1, 2, 3};
  internal::v1::TargetRequest request;
  *request.mutable_batch()->add_steps() = FirstStep(1, prompt, prompt);
  internal::v1::SequenceOptions every = EveryOption(EveryRule()[4], 2);
  every.mutable_sampling()->add_allowed_token_ids(3);
  every.mutable_logprobs()->set_top(5);
  every.mutable_logprobs()->set_processed(true);
  *request.mutable_batch()->add_steps() = FirstStep(3, prompt, prompt, every);
  request.mutable_batch()->mutable_steps(1)->set_prompt_logprobs(true);
  *request.mutable_batch()->add_steps() = MakeStep(1, 2, prompt, 1);
  request.mutable_batch()->add_close(2);
  internal::v1::TargetRequest hello;
  hello.mutable_hello()->set_protocol_revision(messages::kProtocolRevision);
  hello.mutable_hello()->set_client_id("one");
  // The provider takes numbers from the end and strings from the beginning.
  const std::string numbers = "\x0a\x0f\x07\x0b\x0c\x0a\x09\x0e\x08\x01\x0d\x0f\x07\x0a\x02\x05";
  return {request.SerializeAsString() + "\\ " + numbers + numbers,
          hello.SerializeAsString() + "\\ " + request.SerializeAsString() + "\\ " +
              std::string(200, '\x01') + numbers,
          std::string(400, '\x0b') + numbers + std::string(300, '\x0c'), numbers};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  FuzzedDataProvider data(bytes, size);
  tandem::target_service::Run(data).All();
  return 0;
}
