// A draft's streams, driven by any order of good, slightly wrong and arbitrary messages. Every
// Advance of a stream that goes on gets exactly one Block; an OK one keeps to what was asked, and
// of the model has the tokens and the q that its options, rule and seed foretell, whole or cut by
// time; at the end every sequence is given back.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/sampling/sparse.h"
#include "tests/draft_service/harness.h"
#include "tests/fuzz/draft_foretelling.h"
#include "tests/fuzz/fuzz.h"

namespace tandem::draft_service {
namespace {

constexpr uint32_t kContext = 64;

testing::TableModelOptions ModelOptions(FuzzedDataProvider& data) {
  testing::TableModelOptions options;
  options.vocabulary_size = kVocabulary;
  options.context_length = kContext;
  options.max_rows = data.ConsumeIntegralInRange(1, 40);
  options.max_caches = data.ConsumeIntegralInRange(1, 5);
  return options;
}

Options ServiceOptions(FuzzedDataProvider& data) {
  Options options;
  options.max_sequences = data.ConsumeIntegralInRange(1u, 5u);
  options.max_draft_tokens = data.ConsumeIntegralInRange(1u, 8u);
  options.pass_rows = data.ConsumeIntegralInRange(0, 12);
  options.context_length = kContext;
  return options;
}

using AdvanceKey = std::pair<uint64_t, uint64_t>;  // sequence, round

// One stream, and what its client knows.
struct Client {
  struct Asked {
    int times = 0;
    int answered = 0;
    uint32_t max_draft_tokens = 0;    // the largest of them
    std::vector<uint32_t> committed;  // when it was asked once
  };

  Harness::Stream stream;
  std::optional<internal::v1::DraftRequest> together;  // present: what it says waits for more
  bool finished = false;                               // it sends nothing more
  bool over = false;                                   // its transport is gone
  std::map<AdvanceKey, Asked> asked;
  std::map<uint64_t, std::vector<uint32_t>> committed;  // of each sequence
  std::map<uint64_t, uint64_t> rounds;
  std::map<uint64_t, uint64_t> last_block;
  // What each sequence is opened with, every time that it is.
  std::map<uint64_t, Told> told;
  // Sequences that were opened with another drafter than the model, or told arbitrary things.
  std::set<uint64_t> unforetold;
};

class Run {
 public:
  explicit Run(FuzzedDataProvider& data)
      : data_(data),
        step_time_(absl::Microseconds(data.ConsumeIntegralInRange(0, 500))),
        harness_(ServiceOptions(data), TimedModel(ModelOptions(data))) {}

  void All() {
    for (int i = 0; i < 300 && data_.remaining_bytes() > 0; ++i) Act();
    for (Client& client : clients_) End(client);
    Work();
    TANDEM_CHECK(harness_.executor->active_sequences() == 0) << "sequences are given back";
    TANDEM_CHECK(harness_.model.live_caches() == 0);
  }

 private:
  void Act() {
    if (clients_.empty()) return Connect();
    Client& client = clients_[data_.ConsumeIntegralInRange<size_t>(0, clients_.size() - 1)];
    switch (data_.ConsumeIntegralInRange(0, 15)) {
      case 0:
        if (clients_.size() < 4) Connect();
        break;
      case 1:
        SendArbitrary(client);
        break;
      case 2:
        Send(client, MakeClose(data_.ConsumeIntegralInRange<uint64_t>(0, 5)));
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
        if (data_.ConsumeIntegralInRange(0, 30) == 0) harness_.executor->Drain();
        break;
      case 7:
      case 8:
        harness_.executor->RunOnce();
        Collect();
        break;
      case 9:
      case 10:
        SendOpen(client);
        break;
      case 11:
        SendSubmitted(client);
        break;
      case 12:
        client.together.has_value() ? SendTogether(client)
                                    : void(client.together = internal::v1::DraftRequest());
        break;
      default:
        SendAdvance(client);
    }
  }

  void Connect() {
    Client client;
    client.stream = data_.ConsumeIntegralInRange(0, 7) == 0 ? harness_.ConnectWithoutHello()
                                                            : harness_.Connect(ClientName());
    clients_.push_back(std::move(client));
  }

  std::string ClientName() { return data_.ConsumeBool() ? "one" : "other"; }

  // Steps take their time, so that blocks are cut.
  testing::TableModelOptions TimedModel(testing::TableModelOptions options) {
    options.before_pass = [this](absl::Span<const model::ForwardPart>) {
      harness_.clock.Advance(step_time_);
      return absl::OkStatus();
    };
    return options;
  }

  void AddTokens(std::vector<uint32_t>& tokens, int max) {
    for (int more = data_.ConsumeIntegralInRange(0, max); more > 0; --more) {
      tokens.push_back(data_.ConsumeIntegralInRange(0u, kVocabulary - 1));
    }
  }

  void SendOpen(Client& client) {
    const uint64_t sequence = data_.ConsumeIntegralInRange<uint64_t>(0, 4);
    std::vector<uint32_t>& told = client.committed[sequence];
    told.clear();
    AddTokens(told, 12);
    static const char* const kNames[] = {"", "model", "prompt-lookup", "random", "none"};
    auto it = client.told.find(sequence);
    if (it == client.told.end()) {
      it = client.told.emplace(sequence, MakeTold(data_, sequence)).first;
    }
    auto [options, proposal] = it->second;
    options.set_max_length(data_.ConsumeIntegralInRange(0u, kContext + 1));
    options.set_priority(data_.ConsumeIntegralInRange(0u, 11u));
    if (data_.ConsumeIntegralInRange(0, 7) == 0) {
      SpoilOptions(data_, options);
      client.unforetold.insert(sequence);
    }
    const std::string name = data_.PickValueInArray(kNames);
    if (!name.empty() && name != "model") client.unforetold.insert(sequence);
    internal::v1::DraftRequest request = MakeOpen(sequence, told, name, options, proposal);
    if (data_.ConsumeIntegralInRange(0, 5) == 0 && request.open().has_prefix()) {
      Spoil(*request.mutable_open()->mutable_prefix());
    }
    Send(client, request);
  }

  void SendAdvance(Client& client) {
    const uint64_t sequence = data_.ConsumeIntegralInRange<uint64_t>(0, 4);
    std::vector<uint32_t>& told = client.committed[sequence];
    if (data_.ConsumeIntegralInRange(0, 7) == 0) {
      told.resize(data_.ConsumeIntegralInRange<size_t>(0, told.size()));
    }
    const uint32_t keep = static_cast<uint32_t>(
        data_.ConsumeIntegralInRange<size_t>(data_.ConsumeBool() ? told.size() : 0, told.size()));
    AddTokens(told, 6);
    internal::v1::DraftRequest request = MakeAdvance(sequence, ++client.rounds[sequence], told,
                                                     keep, data_.ConsumeIntegralInRange(0u, 9u));
    internal::v1::Advance& advance = *request.mutable_advance();
    switch (data_.ConsumeIntegralInRange(0, 15)) {
      case 0:
        Spoil(*advance.mutable_prefix());
        break;
      case 1:
        advance.set_round(data_.ConsumeIntegralInRange<uint64_t>(0, 10));
        break;
      case 2:
        advance.mutable_shape()->set_wanted_within_us(data_.ConsumeBool()
                                                          ? data_.ConsumeIntegralInRange(0, 3000)
                                                          : data_.ConsumeIntegral<uint64_t>());
        break;
      case 3:
        advance.mutable_shape()->set_max_nodes(data_.ConsumeIntegral<uint32_t>());
        break;
      case 4:
        advance.mutable_outcome()->set_node(data_.ConsumeIntegral<uint32_t>());
        break;
      case 5:
      case 6:
      case 7:
        advance.mutable_shape()->set_max_outcomes(
            data_.ConsumeIntegralInRange(0u, kMaxOutcomes + 1));
        break;
      default:
        break;
    }
    Send(client, request);
  }

  // Of the last block, of one that was made in advance for it, or of none.
  void SendSubmitted(Client& client) {
    const uint64_t sequence = data_.ConsumeIntegralInRange<uint64_t>(0, 4);
    const uint64_t back = data_.ConsumeIntegralInRange<uint64_t>(0, kMaxOutcomes);
    internal::v1::DraftRequest request;
    request.mutable_submitted()->set_sequence(sequence);
    request.mutable_submitted()->mutable_block_id()->set_value(client.last_block[sequence] - back);
    request.mutable_submitted()->set_nodes(data_.ConsumeIntegralInRange(0u, 9u));
    Send(client, request);
  }

  void Spoil(internal::v1::Prefix& prefix) {
    switch (data_.ConsumeIntegralInRange(0, 2)) {
      case 0:
        prefix.set_hash(prefix.hash() + 1);
        break;
      case 1:
        prefix.set_keep(data_.ConsumeIntegral<uint32_t>());
        break;
      default:
        prefix.add_tokens(data_.ConsumeIntegral<uint32_t>());
    }
  }

  void SendArbitrary(Client& client) {
    internal::v1::DraftRequest request;
    if (!request.ParseFromString(data_.ConsumeRandomLengthString(300))) return;
    Doubt(client, request);
    for (const internal::v1::DraftRequest& next : request.next()) Doubt(client, next);
    Send(client, request);
  }
  static void Doubt(Client& client, const internal::v1::DraftRequest& request) {
    if (request.has_open()) client.unforetold.insert(request.open().sequence());
    if (request.has_advance()) client.unforetold.insert(request.advance().sequence());
  }

  void Send(Client& client, const internal::v1::DraftRequest& request) {
    if (client.finished || client.over || client.stream.sink->closed().has_value()) return;
    Note(client, request);
    for (const internal::v1::DraftRequest& next : request.next()) Note(client, next);
    using internal::v1::DraftRequest;
    const bool goes_alone =
        request.kind_case() == DraftRequest::KIND_NOT_SET || !request.next().empty();
    if (goes_alone) SendTogether(client);
    if (!client.together.has_value()) return client.stream.Send(request);
    const bool first = client.together->kind_case() == DraftRequest::KIND_NOT_SET;
    *(first ? &*client.together : client.together->add_next()) = request;
  }
  static void Note(Client& client, const internal::v1::DraftRequest& request) {
    if (!request.has_advance()) return;
    const internal::v1::Advance& advance = request.advance();
    Client::Asked& asked = client.asked[{advance.sequence(), advance.round()}];
    asked.committed =
        ++asked.times == 1 ? client.committed[advance.sequence()] : std::vector<uint32_t>();
    asked.max_draft_tokens = std::max(asked.max_draft_tokens, advance.shape().max_draft_tokens());
  }
  // One message.
  void SendTogether(Client& client) {
    const auto message = std::exchange(client.together, std::nullopt);
    if (!message.has_value() || client.over) return;
    if (message->kind_case() == internal::v1::DraftRequest::KIND_NOT_SET) return;
    if (!client.stream.sink->closed().has_value()) client.stream.Send(*message);
  }

  void HalfClose(Client& client) {
    if (client.over || std::exchange(client.finished, true)) return;
    SendTogether(client);
    client.stream.session->OnHalfClose();
  }

  void Break(Client& client) {
    if (!std::exchange(client.over, true)) {
      client.stream.session->OnDone(absl::CancelledError("cut"));
    }
  }

  void Work() {
    harness_.RunAll();
    Collect();
  }

  void Collect() {
    for (Client& client : clients_) {
      for (const internal::v1::Block& block : client.stream.sink->Take()) CheckBlock(client, block);
    }
  }

  void CheckBlock(Client& client, const internal::v1::Block& block) {
    auto it = client.asked.find({block.sequence(), block.round()});
    TANDEM_CHECK(it != client.asked.end()) << "nobody asked: " << block.ShortDebugString();
    Client::Asked& asked = it->second;
    client.last_block[block.sequence()] = block.block_id().value();
    if (block.has_assumes()) return CheckPrepared(asked, block);
    TANDEM_CHECK(++asked.answered <= asked.times) << block.ShortDebugString();
    TANDEM_CHECK(block.final() && block.status() != internal::v1::STATUS_UNSPECIFIED);
    TANDEM_CHECK(block.load().free_slots() <= 5);
    TANDEM_CHECK(block.queued_us() < 1'000'000'000 && block.computed_us() < 1'000'000'000);
    TANDEM_CHECK(block.status() != internal::v1::STATUS_INTERNAL) << block.ShortDebugString();
    if (block.status() != internal::v1::STATUS_OK) {
      TANDEM_CHECK(block.has_problem() && block.tokens().empty());
      return;
    }
    TANDEM_CHECK(block.block_id().value() != 0);
    const auto told = client.told.find(block.sequence());
    if (told != client.told.end() && !client.unforetold.contains(block.sequence())) {
      CheckForetold(block, told->second, asked.committed, harness_.model);
    }
    TANDEM_CHECK(block.tokens_size() <= static_cast<int>(asked.max_draft_tokens));
    TANDEM_CHECK(block.q().empty() || block.q_size() == block.tokens_size());
    for (int i = 0; i < block.tokens_size(); ++i) {
      TANDEM_CHECK(block.tokens(i) < kVocabulary);
      if (block.q().empty()) continue;
      const sampling::SparseDistribution q{
          {block.q(i).ids().begin(), block.q(i).ids().end()},
          {block.q(i).weights().begin(), block.q(i).weights().end()}};
      TANDEM_CHECK_OK(sampling::ValidateFor(q, block.tokens(i), kVocabulary));
    }
  }

  void CheckPrepared(const Client::Asked& asked, const internal::v1::Block& block) {
    TANDEM_CHECK(!block.final() && block.status() == internal::v1::STATUS_OK && asked.times > 0);
    TANDEM_CHECK(block.assumes().block_id().value() < block.block_id().value());
    TANDEM_CHECK(block.assumes().node() <= asked.max_draft_tokens);
    TANDEM_CHECK(block.assumes().next_token() < kVocabulary);
    TANDEM_CHECK(!block.tokens().empty() && block.q().empty() && block.parents().empty());
    TANDEM_CHECK(block.tokens_size() <= static_cast<int>(asked.max_draft_tokens));
    for (const uint32_t token : block.tokens()) TANDEM_CHECK(token < kVocabulary);
  }

  // An orderly end: all is answered, then the stream closes with OK.
  void End(Client& client) {
    SendTogether(client);
    const bool broken = client.over || client.stream.sink->closed().has_value();
    if (!broken) HalfClose(client);
    Work();
    if (!broken) {
      TANDEM_CHECK(client.stream.sink->closed().has_value());
      TANDEM_CHECK_OK(*client.stream.sink->closed());
      for (const auto& [key, asked] : client.asked) {
        TANDEM_CHECK(asked.answered == asked.times)
            << asked.answered << " Blocks for " << asked.times << " Advances of sequence "
            << key.first << ", round " << key.second;
      }
    }
    Break(client);
  }

  FuzzedDataProvider& data_;
  const absl::Duration step_time_;
  Harness harness_;
  std::vector<Client> clients_;
};

}  // namespace
}  // namespace tandem::draft_service

std::vector<std::string> tandem::fuzz::Seeds() {
  using namespace tandem::draft_service;
  const std::vector<uint32_t> prompt = {1, 2, 3};
  std::string messages;
  for (const internal::v1::DraftRequest& request :
       {MakeOpen(1, prompt), MakeAdvance(1, 1, prompt, 3), MakeClose(1)}) {
    messages += request.SerializeAsString() + "\\ ";
  }
  internal::v1::DraftRequest together = MakeOpen(1, prompt);
  *together.add_next() = MakeAdvance(1, 1, prompt, 3);
  messages += together.SerializeAsString() + "\\ ";
  // The provider takes numbers from the end and strings from the beginning.
  const std::string numbers = "\x0a\x0f\x07\x0b\x0c\x0a\x09\x0e\x08\x01\x0d\x0f\x07\x0a\x02\x05";
  return {messages + numbers + numbers, messages + std::string(200, '\x01') + numbers,
          std::string(400, '\x0b') + numbers + std::string(300, '\x09'), numbers};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  FuzzedDataProvider data(bytes, size);
  tandem::draft_service::Run(data).All();
  return 0;
}
