// The same clients, alone one after the other and all at once in random order: what each sees must
// be equal to the bit, whatever the rows of a pass.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "tests/draft_service/harness.h"

namespace tandem::draft_service {

// What a sequence's client sees, in each of its rounds.
struct Transcript {
  std::vector<std::vector<uint32_t>> tokens;
  std::vector<std::vector<std::vector<uint32_t>>> weights;

  bool operator==(const Transcript&) const = default;
};

// A client that accepts some of each block, and goes back now and then: what it does depends on its
// number and on the blocks that it gets, not on time.
class Actor {
 public:
  Actor(uint64_t number, int rounds) : number_(number), rounds_(rounds), random_(number) {
    committed_.resize(1 + random_() % 80);
    for (uint32_t& token : committed_) token = static_cast<uint32_t>(random_() % 8);
  }

  internal::v1::DraftRequest Open() const {
    const auto prompt = number_ % 3 == 0 ? absl::Span<const uint32_t>() : committed_;
    return MakeOpen(number_, prompt, "model", Options(),
                    number_ % 5 == 0 ? v1::PROPOSAL_GREEDY : v1::PROPOSAL_UNSPECIFIED);
  }
  internal::v1::DraftRequest Advance() {
    asked_ = true;
    const uint32_t keep = round_ == 0 && number_ % 3 == 0 ? 0 : keep_;
    return MakeAdvance(number_, ++round_, committed_, keep,
                       1 + static_cast<uint32_t>(random_() % 6));
  }
  void Take(const internal::v1::Block& block) {
    ASSERT_EQ(block.status(), internal::v1::STATUS_OK) << block.ShortDebugString();
    asked_ = false;
    auto& tokens = transcript.tokens.emplace_back(block.tokens().begin(), block.tokens().end());
    auto& weights = transcript.weights.emplace_back();
    for (const auto& q : block.q()) weights.emplace_back(q.weights().begin(), q.weights().end());
    if (random_() % 6 == 0) committed_.resize(1 + random_() % committed_.size());
    keep_ = static_cast<uint32_t>(committed_.size());
    const size_t accepted = random_() % (tokens.size() + 1);
    committed_.insert(committed_.end(), tokens.begin(),
                      tokens.begin() + static_cast<ptrdiff_t>(accepted));
    committed_.push_back(static_cast<uint32_t>(random_() % 8));
  }
  bool asked() const { return asked_; }
  bool done() const { return transcript.tokens.size() == static_cast<size_t>(rounds_); }

  Transcript transcript;

 private:
  // Half of them with all options, one rule each.
  internal::v1::SequenceOptions Options() const {
    static constexpr v1::Rule kRules[] = {v1::RULE_SPECULATIVE, v1::RULE_COUPLED, v1::RULE_BLOCK,
                                          v1::RULE_LENIENT};
    const float temperature = number_ % 4 == 0 ? 0.0f : 1.0f;
    if (number_ % 2 == 0) return SampledOptions(number_, temperature);
    return AllWireOptions(number_, kRules[number_ / 2 % 4], number_ % 8 == 7 ? 0.0f : 0.9f);
  }

  const uint64_t number_;
  const int rounds_;
  std::mt19937 random_;
  std::vector<uint32_t> committed_;
  uint32_t keep_ = 0;
  uint64_t round_ = 0;
  bool asked_ = false;
};

using Transcripts = std::map<uint64_t, Transcript>;  // by number

inline Transcripts RunAlone(const Options& options, uint64_t actors, int rounds) {
  Transcripts transcripts;
  for (uint64_t i = 0; i < actors; ++i) {
    Harness draft(options);
    auto stream = draft.Connect();
    Actor actor(i, rounds);
    stream.Send(actor.Open());
    while (!actor.done()) actor.Take(draft.Ask(stream, actor.Advance()));
    transcripts[i] = actor.transcript;
  }
  return transcripts;
}

// Each asks at random times; every fourth belongs to another client.
inline Transcripts RunTogether(Harness& draft, uint64_t actors, int rounds, std::mt19937& random) {
  std::vector<Harness::Stream> streams;
  std::vector<Actor> all;
  for (uint64_t i = 0; i < actors; ++i) {
    streams.push_back(draft.Connect(i % 4 == 0 ? "one" : "other"));
    all.emplace_back(i, rounds);
    streams.back().Send(all.back().Open());
  }
  bool all_done = false;
  while (!all_done) {
    draft.executor->RunOnce();
    all_done = true;
    for (uint64_t i = 0; i < actors; ++i) {
      for (const internal::v1::Block& block : streams[i].sink->Take()) all[i].Take(block);
      if (all[i].done()) continue;
      all_done = false;
      if (!all[i].asked() && random() % 3 == 0) streams[i].Send(all[i].Advance());
    }
  }
  Transcripts transcripts;
  for (uint64_t i = 0; i < actors; ++i) transcripts[i] = all[i].transcript;
  return transcripts;
}

}  // namespace tandem::draft_service
