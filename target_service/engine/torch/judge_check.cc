#include "target_service/engine/torch/torch_engine.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/acceptance/tree.h"
#include "common/base/status_macros.h"
#include "target_service/engine/judging.h"

namespace tandem::target_service {
namespace {

using acceptance::Rule;
using kernels::CudaBuffer;
using speculation::CandidateTree;
using speculation::SequenceSettings;

constexpr uint32_t kCandidates = 2;
constexpr uint32_t kCommitted = 9;

// A part of the check: one round of a sequence.
struct Round {
  SequenceSettings settings;
  CandidateTree block;
  sampling::TokenHistory history;
};

// Under the rules that have trees each option comes twice, and the second time with a tree.
struct Case {
  SequenceSettings settings;
  bool tree = false;
};

std::vector<Case> AllCases(uint32_t vocabulary) {
  std::vector<Case> all;
  for (Rule rule : acceptance::kRules) {
    const int options = acceptance::HasTrees(rule) ? 8 : 4;
    for (int number = 0; number < options; ++number) {
      const int option = number % 4;
      Case& one = all.emplace_back();
      one.tree = number >= 4;
      SequenceSettings& settings = one.settings;
      sampling::SamplingParameters& sampling = settings.sampling;
      settings.rule = rule;
      sampling.temperature = rule == Rule::kGreedy ? 0 : 0.8;
      if (rule == Rule::kLenient) settings.leniency = 0.4;
      settings.seed = 1000 + all.size();
      settings.prompt_tokens = 3;
      if (option == 1) {
        sampling.top_k = 40;
        sampling.top_p = 0.9;
        sampling.min_p = 0.01;
        settings.logprobs = sampling::LogprobOptions{3, /*processed=*/true};
      }
      if (option == 2) {
        sampling.repetition_penalty = 1.2;
        sampling.presence_penalty = 0.3;
        sampling.frequency_penalty = 0.1;
        sampling.bias = {{vocabulary / 2, 4.0}};
        sampling.banned = {0};
        settings.logprobs = sampling::LogprobOptions{2, /*processed=*/false};
      }
      if (option == 3) {
        sampling.top_p = 0.5;
        sampling.min_tokens = 20;
        sampling.stop_token_ids = {vocabulary - 1};
        if (rule == Rule::kLenient) sampling.temperature = 0;
      }
    }
  }
  return all;
}

// A few tokens stand out, as in a text.
std::vector<float> RandomLogits(std::mt19937& random, size_t rows, uint32_t vocabulary) {
  std::vector<float> logits(rows * vocabulary);
  for (float& logit : logits) logit = static_cast<float>(random() % 65536) / 16384.0f - 2.0f;
  for (size_t row = 0; row < rows; ++row) {
    for (int i = 0; i < 8; ++i) logits[row * vocabulary + random() % vocabulary] += 9.0f;
  }
  return logits;
}

std::vector<Round> Rounds(std::mt19937& random, uint32_t vocabulary,
                          const std::vector<float>& logits) {
  std::vector<Round> rounds;
  for (const auto& [settings, tree] : AllCases(vocabulary)) {
    Round round{settings, {}, sampling::TokenHistory(settings.prompt_tokens)};
    for (uint32_t i = 0; i < kCommitted; ++i) {
      round.history.Append(static_cast<uint32_t>(random() % vocabulary));
    }
    for (uint32_t i = 0; i < kCandidates; ++i) {
      const size_t row = rounds.size() * (kCandidates + 1) + i;
      const auto begin = logits.begin() + static_cast<ptrdiff_t>(row * vocabulary);
      const auto likely = std::max_element(begin, begin + vocabulary) - begin;
      round.block.tokens.push_back(static_cast<uint32_t>(likely));
    }
    if (tree) round.block.parents = {0, round.block.tokens[0] == round.block.tokens[1] ? 1u : 0u};
    if (!acceptance::HasTrees(settings.rule)) {
      for (uint32_t token : round.block.tokens) {
        round.block.q.push_back({{token, (token + 1) % vocabulary}, {40000, 25000}});
        if (vocabulary < 2) round.block.q.back() = {};
      }
    }
    rounds.push_back(std::move(round));
  }
  return rounds;
}

template <typename Number>
bool SameBits(const Number& a, const Number& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

bool Same(const std::optional<float>& a, const std::optional<float>& b) {
  return a.has_value() == b.has_value() && (!a.has_value() || SameBits(*a, *b));
}

bool Same(const sampling::NodeLogprobs& a, const sampling::NodeLogprobs& b) {
  const auto same_token = [](const sampling::TokenLogprob& x, const sampling::TokenLogprob& y) {
    return x.token == y.token && SameBits(x.logprob, y.logprob);
  };
  return Same(a.candidate, b.candidate) && Same(a.next_token, b.next_token) &&
         std::equal(a.top.begin(), a.top.end(), b.top.begin(), b.top.end(), same_token);
}

bool Same(const kernels::JudgedPart& judged, const Judgement& wanted) {
  const auto same_entry = [](const acceptance::Entry& x, const acceptance::Entry& y) {
    return SameBits(x.accept_probability, y.accept_probability) && x.next_token == y.next_token;
  };
  return !judged.broken_after.has_value() &&
         std::equal(judged.entries.begin(), judged.entries.end(), wanted.entries.begin(),
                    wanted.entries.end(), same_entry) &&
         std::equal(judged.logprobs.begin(), judged.logprobs.end(), wanted.logprobs.begin(),
                    wanted.logprobs.end(), [](const auto& x, const auto& y) { return Same(x, y); });
}

absl::StatusOr<kernels::JudgedPass> OnTheCard(kernels::DeviceJudge& judge,
                                              const std::vector<float>& logits,
                                              const std::vector<Round>& rounds) {
  TANDEM_RETURN_IF_ERROR(judge.driver().MakeCurrent());
  CudaBuffer pinned(judge.driver(), CudaBuffer::Place::kPinned);
  CudaBuffer there(judge.driver(), CudaBuffer::Place::kDevice);
  const size_t bytes = logits.size() * sizeof(float);
  TANDEM_RETURN_IF_ERROR(pinned.Grow(bytes));
  TANDEM_RETURN_IF_ERROR(there.Grow(bytes));
  std::memcpy(pinned.at<void>(0), logits.data(), bytes);
  kernels::JudgeFlight flight(judge);
  TANDEM_RETURN_IF_ERROR(flight.Begin(/*stream=*/nullptr));
  TANDEM_RETURN_IF_ERROR(there.CopyIn(pinned.at<void>(0), bytes, /*stream=*/nullptr));
  uint32_t row = 0;
  for (const Round& round : rounds) {
    flight.tables().AddBlock(round.settings, round.block, kCommitted,
                             round.settings.sampling.looks_back() ? &round.history : nullptr, row);
    row += kCandidates + 1;
  }
  TANDEM_RETURN_IF_ERROR(flight.Judge(there.at<float>(0), judge.vocabulary_size()));
  return flight.Await();
}

}  // namespace

absl::Status CheckJudge(kernels::DeviceJudge& judge) {
  const uint32_t vocabulary = judge.vocabulary_size();
  std::mt19937 random(20261123);
  const size_t rows = AllCases(vocabulary).size() * (kCandidates + 1);
  const std::vector<float> logits = RandomLogits(random, rows, vocabulary);
  std::vector<Round> rounds = Rounds(random, vocabulary, logits);
  TANDEM_ASSIGN_OR_RETURN(const kernels::JudgedPass judged, OnTheCard(judge, logits, rounds));
  const model::Logits all = {logits.data(), static_cast<int>(rows), static_cast<int>(vocabulary)};
  for (size_t i = 0; i < rounds.size(); ++i) {
    Round& round = rounds[i];
    TANDEM_ASSIGN_OR_RETURN(
        const Judgement wanted,
        JudgeRows(acceptance::Judge, round.settings, round.block, kCommitted,
                  round.settings.sampling.looks_back() ? &round.history : nullptr, all,
                  static_cast<int>(i * (kCandidates + 1)), vocabulary));
    if (Same(judged.parts[i], wanted)) continue;
    return absl::DataLossError(absl::StrCat("the card's judge differs from the processor's: rule ",
                                            acceptance::Name(round.settings.rule), ", case ", i));
  }
  return absl::OkStatus();
}

}  // namespace tandem::target_service
