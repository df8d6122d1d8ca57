#include "tests/integration/exactness_cells.h"

#include <algorithm>

#include "common/base/check.h"

namespace tandem::testing {
namespace {

using sampling::SamplingParameters;
using sampling::TokenBias;
using enum CellRule;
using enum CellLength;
using enum CellDrafter;
using enum CellFamily;

// One of each option. Seven letters, of which six are allowed and one of these banned.
SamplingParameters Mix() {
  return {.temperature = 0.8,
          .top_k = 4,
          .top_p = 0.95,
          .min_p = 0.03,
          .repetition_penalty = 1.3,
          .presence_penalty = 0.4,
          .frequency_penalty = 0.3,
          .bias = {TokenBias{1, 0.7}, TokenBias{3, -0.5}},
          .banned = {4},
          .allowed = {0, 1, 2, 3, 4, 5},
          .min_tokens = 3,
          .stop_token_ids = {0}};
}

}  // namespace

const std::vector<ExactnessCell>& ExactnessCells() {
  constexpr TablePair kOfFive;
  constexpr TablePair kOfFour = {.vocabulary = 4, .top_m = 2};
  constexpr TablePair kOfEight = {.vocabulary = 8, .top_m = 4, .noise = 0.7};
  constexpr TablePair kOfSeven = {.vocabulary = 7, .top_m = 4, .noise = 0.7};
  static const auto& cells = *new std::vector<ExactnessCell>{
      {"PlainOne", kSpeculative, kOne, kSampled, kPlain, kOfFive, {}},
      {"PlainTwo", kBlock, kTwo, kGreedy, kPlain, kOfFive, {}},
      {"PlainFour", kCoupled, kFour, kPromptLookup, kPlain, kOfFour, {}},
      {"PlainByVerdict", kSpeculative, kByVerdict, kRandom, kPlain, kOfFour, {}},

      {"Cold", kCoupled, kOne, kGreedy, kTemperature, kOfFive, {.temperature = 0.6}},
      {"ColdWarmDraft", kCoupled, kTwo, kSampled, kTemperature, kOfFive, {.temperature = 0.6}, 1.2},
      {"ColdRandom", kSpeculative, kFour, kRandom, kTemperature, kOfFour, {.temperature = 0.6}},
      {"Warm", kBlock, kByVerdict, kPromptLookup, kTemperature, kOfFour, {.temperature = 1.5}},

      {"TopK", kBlock, kOne, kPromptLookup, kTruncation, kOfEight, {.top_k = 3}},
      {"TopKTopP", kSpeculative, kTwo, kRandom, kTruncation, kOfEight, {.top_k = 4, .top_p = 0.85}},
      {"TopPWarmDraft", kBlock, kFour, kSampled, kTruncation, kOfFive, {.top_p = 0.9}, 2.0, 9},
      {"TopKMinP",
       kCoupled,
       kByVerdict,
       kGreedy,
       kTruncation,
       kOfEight,
       {.top_k = 5, .min_p = 0.15}},

      {"BiasBans",
       kCoupled,
       kOne,
       kRandom,
       kLists,
       kOfSeven,
       {.bias = {TokenBias{0, 1.5}, TokenBias{5, -1}}, .banned = {2}}},
      {"Allowed", kSpeculative, kTwo, kPromptLookup, kLists, kOfSeven, {.allowed = {0, 1, 3, 6}}},
      {"AllowedBias",
       kBlock,
       kFour,
       kGreedy,
       kLists,
       kOfSeven,
       {.bias = {TokenBias{3, 1}}, .allowed = {0, 1, 3, 4, 6}}},
      {"BiasBansColdDraft",
       kSpeculative,
       kByVerdict,
       kSampled,
       kLists,
       kOfSeven,
       {.bias = {TokenBias{1, -2}}, .banned = {0, 3}},
       0.8},

      {"Repetition", kBlock, kOne, kRandom, kPenalties, kOfFive, {.repetition_penalty = 1.8}},
      {"Frequency", kCoupled, kTwo, kSampled, kPenalties, kOfFive, {.frequency_penalty = 1.2}},
      {"Presence", kSpeculative, kFour, kGreedy, kPenalties, kOfFive, {.presence_penalty = 1.5}},
      {"AllPenalties",
       kSpeculative,
       kByVerdict,
       kPromptLookup,
       kPenalties,
       kOfFive,
       {.repetition_penalty = 0.7, .presence_penalty = -0.8, .frequency_penalty = 0.6}},

      {"Mix", kSpeculative, kOne, kGreedy, kEnds, kOfSeven, Mix()},
      {"MinimumTokens",
       kCoupled,
       kTwo,
       kRandom,
       kEnds,
       kOfFive,
       {.min_tokens = 3, .stop_token_ids = {1}}},
      {"MixColdDraft", kCoupled, kFour, kSampled, kEnds, kOfSeven, Mix(), 0.6},
      {"MixByVerdict", kBlock, kByVerdict, kPromptLookup, kEnds, kOfSeven, Mix()},
  };
  return cells;
}

const ExactnessCell& ExactnessCellNamed(absl::string_view name) {
  const std::vector<ExactnessCell>& cells = ExactnessCells();
  const auto cell = std::find_if(cells.begin(), cells.end(),
                                 [&](const ExactnessCell& other) { return other.name == name; });
  TANDEM_CHECK(cell != cells.end());
  return *cell;
}

void PrintTo(const ExactnessCell& cell, std::ostream* out) { *out << cell.name; }

std::array<uint8_t, 4> ExactnessCell::levels() const {
  return {static_cast<uint8_t>(rule), static_cast<uint8_t>(length), static_cast<uint8_t>(drafter),
          static_cast<uint8_t>(family)};
}

int UsualTexts(const ExactnessCell& cell) {
  if (cell.rule != kBlock) return 6'000;
  return cell.length == kFour && cell.drafter == kSampled ? 20'000 : 12'000;
}

TextsOptions TextsOf(const ExactnessCell& cell, int count) {
  TextsOptions texts;
  // Several texts per request cost less, and must be as independent. One cell has one text a
  // request.
  texts.samples = cell.family == kPlain && cell.length == kOne ? 1 : 8;
  texts.requests = count / static_cast<int>(texts.samples);
  // Seeds of its own: cells of rule coupled would else have texts in common.
  const std::vector<ExactnessCell>& cells = ExactnessCells();
  const auto place = std::find_if(cells.begin(), cells.end(), [&](const ExactnessCell& other) {
    return other.levels() == cell.levels();
  });
  texts.first_seed = 1'000'000 * static_cast<uint64_t>(place - cells.begin()) + 1;
  texts.sampling = cell.sampling;
  texts.text_tokens = cell.text_tokens;
  constexpr v1::Rule kRules[] = {v1::RULE_SPECULATIVE, v1::RULE_BLOCK, v1::RULE_COUPLED};
  texts.rule = kRules[static_cast<size_t>(cell.rule)];
  constexpr std::optional<uint32_t> kLengths[] = {1, 2, 4, std::nullopt};
  texts.draft_tokens = kLengths[static_cast<size_t>(cell.length)];
  if (cell.length == kByVerdict) texts.length_policy = v1::LENGTH_POLICY_HEURISTIC;
  switch (cell.drafter) {
    case kSampled:
      texts.proposal = v1::PROPOSAL_SAMPLED;
      break;
    case kGreedy:
      texts.proposal = v1::PROPOSAL_GREEDY;
      break;
    case kPromptLookup:
      texts.drafter = "prompt-lookup";
      // All that it could look for has come before.
      texts.prompt = {0, 1, 2, 3, 1, 0, 2, 1, 3, 0, 3, 2, 0, 1};
      break;
    case kRandom:
      texts.drafter = "random";
      break;
  }
  if (cell.draft_temperature != 0) texts.draft_temperature = cell.draft_temperature;
  return texts;
}

}  // namespace tandem::testing
