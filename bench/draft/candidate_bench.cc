// What one candidate costs beside the model's pass: from a row of logits to a token, by the way it
// is drawn and by the options.
// Usage: draft_candidate_bench [vocabulary] [tokens of text] [rounds]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench/model/timing.h"
#include "common/base/check.h"
#include "draft_service/drafters/candidate_draw.h"

namespace tandem::bench {
namespace {

using acceptance::Rule;
using speculation::Proposal;
using speculation::SequenceSettings;

struct Case {
  std::string name;
  std::function<void(SequenceSettings&)> set;
};

void Penalise(SequenceSettings& sequence) {
  sequence.sampling.repetition_penalty = 1.1;
  sequence.sampling.presence_penalty = 0.5;
  sequence.sampling.frequency_penalty = 0.5;
}

std::vector<Case> Cases() {
  return {
      {"greedy", [](SequenceSettings& s) { s.sampling.temperature = 0; }},
      {"greedy, penalties",
       [](SequenceSettings& s) {
         s.sampling.temperature = 0;
         Penalise(s);
       }},
      {"speculative", [](SequenceSettings&) {}},
      {"speculative, top-k 40", [](SequenceSettings& s) { s.sampling.top_k = 40; }},
      {"speculative, top-p 0.9", [](SequenceSettings& s) { s.sampling.top_p = 0.9; }},
      {"speculative, min-p 0.05", [](SequenceSettings& s) { s.sampling.min_p = 0.05; }},
      {"speculative, penalties", Penalise},
      {"speculative, 1000 banned",
       [](SequenceSettings& s) {
         for (uint32_t i = 0; i < 1000; ++i) s.sampling.banned.push_back(i);
       }},
      {"coupled", [](SequenceSettings& s) { s.rule = Rule::kCoupled; }},
      {"coupled, top-k 40",
       [](SequenceSettings& s) {
         s.rule = Rule::kCoupled;
         s.sampling.top_k = 40;
       }},
      {"coupled, penalties",
       [](SequenceSettings& s) {
         s.rule = Rule::kCoupled;
         Penalise(s);
       }},
  };
}

void Main(uint32_t vocabulary, uint32_t text, int rounds) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(vocabulary);
  for (float& logit : logits) logit = normal(random);
  std::printf("vocabulary %u, text of %u tokens; blocks of 4; %d rounds\n\n", vocabulary, text,
              rounds);
  std::printf("%-26s %s\n", "", "us a candidate: least / median / most");
  for (const Case& one : Cases()) {
    SequenceSettings sequence;
    sequence.rule = Rule::kSpeculative;
    sequence.seed = 7;
    sequence.prompt_tokens = text / 2;
    one.set(sequence);
    draft_service::CandidateDraw draw(sequence, Proposal::kSampled, 64, vocabulary);
    std::vector<uint32_t> tokens(text);
    for (uint32_t& token : tokens) token = static_cast<uint32_t>(random() % vocabulary);
    draw.Accept(0, tokens);
    std::vector<double> times;
    for (int round = 0; round < rounds; ++round) {
      times.push_back(Microseconds([&] {
                        speculation::CandidateTree block;
                        draw.BeginBlock(text);
                        for (int i = 0; i < 4; ++i) TANDEM_CHECK_OK(draw.Append(logits, block));
                      }) /
                      4);
    }
    const Spread spread = SpreadOf(times);
    std::printf("%-26s %.1f / %.1f / %.1f\n", one.name.c_str(), spread.min, spread.median,
                spread.max);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  tandem::bench::Main(argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 49152,
                      argc > 2 ? static_cast<uint32_t>(std::atoi(argv[2])) : 500,
                      argc > 3 ? std::atoi(argv[3]) : 200);
}
