// A speculation loop between a target and a draft whose answers are spoiled on the wire, in any
// order of events: the request ends exactly once and frees everything, and as long as the target
// told no well-formed lie, the ids of a greedy request are the target's own, whatever the draft
// sends.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/messages/logprobs.h"
#include "gtest/gtest.h"
#include "orchestrator/draft/draft_wire.h"
#include "orchestrator/verify/verify_wire.h"
#include "tests/fuzz/fuzz.h"
#include "tests/orchestrator/harness/loop_harness.h"

namespace tandem::orchestrator {
namespace {

internal::v1::Verdict ToWire(const VerifyReply& reply) {
  internal::v1::Verdict verdict;
  verdict.set_round(reply.round);
  verdict.set_status(reply.status == VerifyReply::Status::kOk ? internal::v1::STATUS_OK
                                                              : internal::v1::STATUS_NEED_PREFIX);
  verdict.mutable_problem()->set_held(reply.held);
  for (const acceptance::Entry& entry : reply.entries) {
    internal::v1::Entry& sent = *verdict.add_entries();
    sent.set_accept_probability(entry.accept_probability);
    if (entry.next_token.has_value()) sent.set_next_token(*entry.next_token);
    const size_t i = verdict.entries_size() - 1;
    if (i < reply.logprobs.size()) *sent.mutable_logprobs() = messages::ToWire(reply.logprobs[i]);
  }
  for (const sampling::NodeLogprobs& node : reply.prompt_logprobs) {
    *verdict.add_prompt_logprobs() = messages::ToWire(node);
  }
  verdict.set_one_hot_candidates(reply.one_hot_candidates);
  return verdict;
}

internal::v1::Block ToWire(const DraftReplyBlock& reply) {
  internal::v1::Block block;
  block.set_round(reply.round);
  block.set_status(internal::v1::STATUS_OK);
  block.set_final(true);
  block.mutable_block_id()->set_value(base::Number(reply.block.id));
  block.mutable_tokens()->Add(reply.block.tokens.begin(), reply.block.tokens.end());
  for (const sampling::SparseDistribution& q : reply.block.q) {
    internal::v1::SparseDistribution& sent = *block.add_q();
    sent.mutable_ids()->Add(q.ids.begin(), q.ids.end());
    sent.mutable_weights()->Add(q.weights.begin(), q.weights.end());
  }
  return block;
}

bool SameDecision(const VerifyReply& a, const VerifyReply& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (size_t i = 0; i < a.entries.size(); ++i) {
    if (a.entries[i].next_token != b.entries[i].next_token ||
        a.entries[i].accept_probability != b.entries[i].accept_probability) {
      return false;
    }
  }
  return true;
}

GenerationRequest ARequest(FuzzedDataProvider& data) {
  GenerationRequest request;
  request.id = "fuzz";
  request.prompt = {1, 2, 3, 4, 5};
  request.prompt[0] = data.ConsumeIntegralInRange(0u, 7u);
  request.sampling.temperature = data.ConsumeBool() ? 0 : 1;
  constexpr acceptance::Rule kRules[] = {acceptance::Rule::kSpeculative, acceptance::Rule::kBlock,
                                         acceptance::Rule::kCoupled, acceptance::Rule::kLenient};
  request.rule = kRules[data.ConsumeIntegralInRange(0, 3)];
  if (request.rule == acceptance::Rule::kLenient) {
    request.leniency = 0.5;
  } else if (request.sampling.greedy()) {
    request.rule = acceptance::Rule::kGreedy;
  }
  if (data.ConsumeBool()) request.sampling.presence_penalty = 0.7;
  request.sampling.min_tokens = data.ConsumeIntegralInRange(0u, 9u);
  if (data.ConsumeBool()) request.logprobs = sampling::LogprobOptions{2, data.ConsumeBool()};
  request.prompt_logprobs = request.logprobs.has_value() && data.ConsumeBool();
  request.seed = 42;
  request.max_tokens = data.ConsumeIntegralInRange(request.sampling.min_tokens + 1, 60u);
  if (data.ConsumeBool()) request.draft_tokens = data.ConsumeIntegralInRange(0u, 8u);
  if (data.ConsumeIntegralInRange(0, 3) == 0) request.sampling.stop_token_ids = {3};
  if (data.ConsumeIntegralInRange(0, 3) == 0) request.stop_strings = {"cd", "f"};
  return request;
}

HarnessOptions SomeOptions(FuzzedDataProvider& data) {
  HarnessOptions options;
  options.with_draft = data.ConsumeIntegralInRange(0, 7) > 0;
  options.loop.max_undelivered_tokens = data.ConsumeIntegralInRange(1u, 40u);
  options.loop.max_prefix_tokens = data.ConsumeIntegralInRange(1u, 64u);
  return options;
}

class Run {
 public:
  explicit Run(FuzzedDataProvider& data)
      : data_(data), harness_(ARequest(data), SomeOptions(data)) {
    harness_.target.on_step = [this](const VerifyStep& step, VerifyReply& reply) {
      return OnStep(step, reply);
    };
    harness_.draft.on_advance = [this](const DraftAdvance&, DraftReplyBlock& reply) {
      return OnAdvance(reply);
    };
  }

  void All() {
    harness_.Start();
    while (data_.remaining_bytes() > 0 && !harness_.ending.has_value()) Act();
    // From here on all is well, so it must come to its end.
    well_ = true;
    harness_.reader.reads = true;
    for (int i = 0; i < 20000 && !harness_.ending.has_value(); ++i) {
      if (!harness_.target.connected()) harness_.target.Connect();
      harness_.Read();
      if (harness_.ending.has_value() || harness_.DeliverOne()) continue;
      TANDEM_CHECK(harness_.FireNextTimer()) << "nothing will ever happen";
    }
    Check();
  }

 private:
  bool Chance(int one_in) { return data_.ConsumeIntegralInRange(1, one_in) == 1; }

  void Act() {
    switch (data_.ConsumeIntegralInRange(0, 14)) {
      case 0:
        return harness_.target.Disconnect();
      case 1:
        if (!harness_.target.connected()) harness_.target.Connect();
        return;
      case 2:
        return harness_.draft.Break();
      case 3:
        return harness_.draft.ReleaseHeld();
      case 4:
        return harness_.target.ReleaseHeld();
      case 5:
        harness_.reader.reads = !harness_.reader.reads;
        return;
      case 6:
        return harness_.Read();
      case 7:
        return harness_.clock.Advance(absl::Milliseconds(data_.ConsumeIntegralInRange(0, 300)));
      case 8:
        harness_.FireNextTimer();
        return;
      case 9:
        harness_.draft.unreachable = Chance(3);
        harness_.draft.refuses = Chance(8);
        harness_.draft.silent_open = Chance(8);
        return;
      case 10:
        if (Chance(20)) harness_.loop->OnCancel(absl::CancelledError("by the client"));
        return;
      default:
        harness_.DeliverOne();
    }
  }

  FakeTarget::Do OnStep(const VerifyStep& step, VerifyReply& reply) {
    if (well_ || data_.remaining_bytes() == 0 || !Chance(4)) return FakeTarget::Do::kAnswer;
    if (Chance(8)) return FakeTarget::Do::kHold;
    if (Chance(8)) return FakeTarget::Do::kDrop;
    const VerifyReply honest = reply;
    internal::v1::Verdict verdict = ToWire(reply);
    Spoil(verdict);
    reply = FromWire(verdict);
    if (reply.status == VerifyReply::Status::kOk && reply.round == honest.round && !step.more) {
      // NEED_PREFIX that became OK, or other entries: a lie, unless it is seen to be one.
      const bool broken = !acceptance::ValidateEntries(harness_.request.rule, reply.entries,
                                                       static_cast<int>(step.block.tokens.size()),
                                                       harness_.options.vocabulary_size)
                               .ok();
      lied_ = lied_ || (!broken && !SameDecision(reply, honest));
    }
    // "I hold it" of what it does not hold.
    if (reply.status == VerifyReply::Status::kOk && honest.status != reply.status) lied_ = true;
    return FakeTarget::Do::kAnswer;
  }

  void Spoil(internal::v1::Verdict& verdict) {
    switch (data_.ConsumeIntegralInRange(0, 9)) {
      case 0:
        verdict.MergeFromString(data_.ConsumeRandomLengthString(60));
        break;
      case 1:
        verdict.set_status(static_cast<internal::v1::Status>(data_.ConsumeIntegralInRange(0, 12)));
        verdict.mutable_problem()->set_held(data_.ConsumeIntegralInRange(0u, 70u));
        verdict.mutable_problem()->set_retry_after_us(data_.ConsumeIntegral<uint64_t>());
        break;
      case 2:
        verdict.set_round(verdict.round() + data_.ConsumeIntegralInRange(0, 3) - 1);
        break;
      case 3:
        if (!verdict.entries().empty()) verdict.mutable_entries()->RemoveLast();
        break;
      case 4:
        verdict.add_entries()->set_next_token(data_.ConsumeIntegral<uint32_t>());
        break;
      case 5:
        if (!verdict.entries().empty()) {
          verdict.mutable_entries(0)->set_accept_probability(data_.ConsumeFloatingPoint<float>());
        }
        break;
      case 6:
        if (!verdict.entries().empty()) {
          verdict.mutable_entries(0)->set_next_token(data_.ConsumeIntegral<uint32_t>());
        }
        break;
      case 7:
        for (internal::v1::Entry& entry : *verdict.mutable_entries()) entry.clear_next_token();
        break;
      case 8:
        for (internal::v1::Entry& entry : *verdict.mutable_entries()) {
          internal::v1::NodeLogprobs& node = *entry.mutable_logprobs();
          if (Chance(2)) node.clear_candidate();
          if (Chance(2)) node.set_next_token(data_.ConsumeFloatingPoint<float>());
          if (Chance(2))
            node.mutable_top()->add_tokens()->set_token(data_.ConsumeIntegral<uint32_t>());
        }
        break;
      default:
        if (verdict.prompt_logprobs().empty() || Chance(2)) {
          verdict.add_prompt_logprobs()->set_candidate(data_.ConsumeFloatingPoint<float>());
        } else {
          verdict.mutable_prompt_logprobs()->RemoveLast();
        }
    }
  }

  FakeDraft::Do OnAdvance(DraftReplyBlock& reply) {
    if (well_ || data_.remaining_bytes() == 0 || !Chance(3)) return FakeDraft::Do::kAnswer;
    if (Chance(8)) return FakeDraft::Do::kHold;
    if (Chance(8)) return FakeDraft::Do::kDrop;
    internal::v1::Block block = ToWire(reply);
    const uint64_t id = block.block_id().value();
    Spoil(block);
    // The fake holds the loop to the ids that it gave.
    if (block.block_id().value() != 0) block.mutable_block_id()->set_value(id);
    reply = FromWire(block);
    return FakeDraft::Do::kAnswer;
  }

  void Spoil(internal::v1::Block& block) {
    switch (data_.ConsumeIntegralInRange(0, 7)) {
      case 0:
        block.MergeFromString(data_.ConsumeRandomLengthString(60));
        break;
      case 1:
        block.set_status(static_cast<internal::v1::Status>(data_.ConsumeIntegralInRange(0, 12)));
        block.mutable_problem()->set_held(data_.ConsumeIntegralInRange(0u, 70u));
        block.mutable_problem()->set_retry_after_us(data_.ConsumeIntegral<uint64_t>());
        break;
      case 2:
        block.set_round(block.round() + data_.ConsumeIntegralInRange(0, 3) - 1);
        break;
      case 3:
        for (int i = data_.ConsumeIntegralInRange(0, 20); i > 0; --i) {
          block.add_tokens(data_.ConsumeIntegral<uint32_t>());
        }
        break;
      case 4:
        for (uint32_t& token : *block.mutable_tokens()) {
          token = data_.ConsumeIntegralInRange(0u, 9u);
        }
        break;
      case 5:
        for (internal::v1::SparseDistribution& q : *block.mutable_q()) {
          q.add_ids(data_.ConsumeIntegral<uint32_t>());
          q.add_weights(data_.ConsumeIntegral<uint32_t>());
          if (Chance(3)) q.clear_weights();
        }
        break;
      case 6:
        block.clear_block_id();
        break;
      default:
        for (int i = 0; i < block.tokens_size(); ++i) block.add_parents(static_cast<uint32_t>(i));
        if (Chance(2)) block.add_parents(0);
    }
  }

  void Check() {
    TANDEM_CHECK(harness_.ending.has_value()) << "it comes to its end";
    TANDEM_CHECK(harness_.endings == 1);
    TANDEM_CHECK(harness_.timers.size() == 0);
    TANDEM_CHECK(harness_.target.open_sequences() == 0 && !harness_.draft.is_open);
    if (harness_.ending->status.ok()) CheckLogprobs();
    using acceptance::Rule;
    const Rule rule = harness_.request.rule;
    if (lied_ || (rule != Rule::kGreedy && rule != Rule::kCoupled)) return;
    const std::vector<uint32_t> plain = harness_.PlainIds();
    const std::vector<uint32_t>& output = harness_.output();
    TANDEM_CHECK(output.size() <= plain.size());
    TANDEM_CHECK(std::equal(output.begin(), output.end(), plain.begin()))
        << "every id once and in order";
    const bool whole = harness_.ending->status.ok() && harness_.ending->stop_string.empty();
    TANDEM_CHECK(!whole || output.size() == plain.size());
  }

  // One an id, and each of the prompt's once and in order.
  void CheckLogprobs() {
    const GenerationRequest& request = harness_.request;
    const size_t ids = request.logprobs.has_value() ? harness_.output().size() : 0;
    TANDEM_CHECK(harness_.reader.logprobs.size() == ids);
    std::vector<uint32_t> prompt = {request.prompt[0]};
    for (const PromptLogprobs& piece : harness_.reader.prompt) {
      TANDEM_CHECK(piece.first_position == prompt.size());
      TANDEM_CHECK(piece.logprobs.size() == piece.ids.size());
      prompt.insert(prompt.end(), piece.ids.begin(), piece.ids.end());
    }
    TANDEM_CHECK(prompt.size() == (request.prompt_logprobs ? request.prompt.size() : 1));
    TANDEM_CHECK(std::equal(prompt.begin(), prompt.end(), request.prompt.begin()));
  }

  FuzzedDataProvider& data_;
  LoopHarness harness_;
  bool well_ = false;
  bool lied_ = false;
};

}  // namespace
}  // namespace tandem::orchestrator

std::vector<std::string> tandem::fuzz::Seeds() {
  return {std::string(40, '\x0b'), std::string(300, '\x0e') + std::string(300, '\0'),
          std::string(100, '\x01') + std::string(100, '\x0b') + std::string(100, '\x07'),
          "\x08\x96\x01\x10\x01\x2a\x05\x0d\0\0\x80\x3f\\ " + std::string(200, '\x0c')};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  // The fakes hold the loop to its contract with EXPECT.
  ::testing::GTEST_FLAG(break_on_failure) = true;
  FuzzedDataProvider data(bytes, size);
  tandem::orchestrator::Run(data).All();
  return 0;
}
