#include "tests/integration/distribution.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/messages/sampling_options.h"

namespace tandem::testing {
namespace {

constexpr int kTextsAtOnce = 128;
constexpr int kPortion = 4000;  // requests whose replies are held at a time
// A context that was seen less often says nothing.
constexpr int64_t kMinSeen = 200;

size_t Power(size_t base, uint32_t exponent) {
  size_t power = 1;
  for (uint32_t i = 0; i < exponent; ++i) power *= base;
  return power;
}

}  // namespace

int TextsOfACell(int usual) {
  const char* setting = std::getenv("TANDEM_DISTRIBUTION_TEXTS");
  if (setting == nullptr) return usual;
  int texts = 0;
  TANDEM_CHECK(absl::SimpleAtoi(setting, &texts) && texts >= 1000)
      << "TANDEM_DISTRIBUTION_TEXTS is \"" << setting << "\"; it must be at least 1000";
  return texts;
}

v1::GenerateRequest TextRequest(const TextsOptions& options, uint64_t seed) {
  v1::GenerateRequest request;
  request.mutable_ids()->mutable_ids()->Add(options.prompt.begin(), options.prompt.end());
  request.set_max_tokens(options.text_tokens);
  request.set_seed(seed);
  request.set_samples(options.samples);
  *request.mutable_sampling() = messages::ToWire(options.asked.value_or(options.sampling));
  for (uint32_t token : options.sampling.stop_token_ids)
    request.mutable_stop()->add_token_ids(token);
  v1::SpeculationOptions& speculation = *request.mutable_speculation();
  speculation.set_rule(options.rule);
  speculation.set_length_policy(options.length_policy);
  if (options.draft_tokens.has_value()) {
    speculation.set_fixed(*options.draft_tokens);
  } else {
    speculation.set_auto_(true);
  }
  speculation.set_drafter(options.drafter);
  speculation.set_proposal(options.proposal);
  if (options.draft_temperature.has_value()) {
    speculation.set_draft_temperature(static_cast<float>(*options.draft_temperature));
  }
  if (options.leniency.has_value()) {
    speculation.set_leniency(static_cast<float>(*options.leniency));
  }
  return request;
}

TextJudge::TextJudge(const TextsOptions& options, uint32_t vocabulary_size, TargetDistribution p)
    : options_(options), vocabulary_size_(vocabulary_size), p_(std::move(p)) {
  TANDEM_CHECK(options.joint_tokens <= options.text_tokens);
  const size_t cells = Power(vocabulary_size + 1, options.joint_tokens);
  exact_joint_.resize(cells);
  joint_.resize(cells);
  if (options.sampling.looks_back()) {
    exact_last_.resize(cells);
    last_.resize(cells);
  }
  std::vector<uint32_t> tokens = options.prompt;
  Enumerate(tokens, 1);
}

bool TextJudge::IsEnd(uint32_t token) const {
  const std::vector<uint32_t>& ends = options_.sampling.stop_token_ids;
  return std::find(ends.begin(), ends.end(), token) != ends.end();
}

size_t TextJudge::CellOf(absl::Span<const uint32_t> output, uint32_t first, uint32_t count) const {
  size_t cell = 0;
  for (uint32_t i = first; i < first + count; ++i) {
    cell = cell * (vocabulary_size_ + 1) + (i < output.size() ? output[i] : vocabulary_size_);
  }
  return cell;
}

void TextJudge::Enumerate(std::vector<uint32_t>& tokens, double probability) {
  const uint32_t max = exact_last_.empty() ? options_.joint_tokens : options_.text_tokens;
  const auto output = absl::MakeConstSpan(tokens).subspan(options_.prompt.size());
  if (output.size() == max || (!output.empty() && IsEnd(output.back()))) {
    exact_joint_[CellOf(output, 0, options_.joint_tokens)] += probability;
    if (!exact_last_.empty()) {
      exact_last_[CellOf(output, max - options_.joint_tokens, options_.joint_tokens)] +=
          probability;
    }
    return;
  }
  const sampling::Distribution p = p_(tokens);
  for (size_t i = 0; i < p.ids.size(); ++i) {
    tokens.push_back(p.ids[i]);
    Enumerate(tokens, probability * p.probabilities[i]);
    tokens.pop_back();
  }
}

void TextJudge::AddText(absl::Span<const uint32_t> output) {
  TANDEM_CHECK(!output.empty());
  const bool ended = IsEnd(output.back());
  TANDEM_CHECK(output.size() == options_.text_tokens ||
               (output.size() < options_.text_tokens && ended))
      << output.size() << " ids of " << options_.text_tokens;
  ++judgement_.texts;
  if (ended) ++judgement_.ended;
  const uint32_t joint = options_.joint_tokens;
  ++joint_[CellOf(output, 0, joint)];
  if (!last_.empty()) {
    ++last_[CellOf(output, options_.text_tokens - joint, joint)];
    return;
  }
  std::vector<uint32_t> tokens = options_.prompt;
  tokens.insert(tokens.end(), output.begin(), output.end());
  for (size_t i = options_.prompt.size() + joint; i < tokens.size(); ++i) {
    Followers& followers = transitions_[{tokens[i - 2], tokens[i - 1]}];
    followers.counts.resize(vocabulary_size_);
    followers.expected.resize(vocabulary_size_);
    const sampling::Distribution row = p_(absl::MakeConstSpan(tokens).first(i));
    for (size_t j = 0; j < row.ids.size(); ++j) {
      followers.expected[row.ids[j]] += row.probabilities[j];
    }
    ++followers.counts[tokens[i]];
    ++followers.seen;
  }
}

void TextJudge::Add(const Reply& reply) {
  TANDEM_CHECK_OK(reply.status);
  TANDEM_CHECK(reply.samples.size() == options_.samples);
  for (const SampleReply& sample : reply.samples) AddText(sample.ids);
  judgement_.accepted += reply.record().accepted_tokens();
  judgement_.rejected_rounds += reply.record().rejected_rounds();
  for (const auto& caused : reply.record().rounds_without_draft()) {
    judgement_.plain_rounds += caused.rounds();
  }
  const int whole = static_cast<int>(options_.draft_tokens.value_or(4));
  if (reply.record().accepted_histogram_size() > whole) {
    judgement_.whole_blocks += reply.record().accepted_histogram(whole);
  }
}

Judgement TextJudge::Finish() const {
  Judgement judgement = judgement_;
  judgement.joint = GoodnessOfFit(exact_joint_, joint_);
  if (!last_.empty()) {
    judgement.rest = GoodnessOfFit(exact_last_, last_);
    return judgement;
  }
  std::vector<ChiSquare> parts;
  for (const auto& [context, followers] : transitions_) {
    if (followers.seen < kMinSeen) continue;
    std::vector<double> expected = followers.expected;
    for (double& value : expected) value /= static_cast<double>(followers.seen);
    parts.push_back(GoodnessOfFit(expected, followers.counts));
  }
  judgement.rest = Combine(parts);
  return judgement;
}

std::string Judgement::ToString() const {
  return absl::StrCat("joint: ", joint.ToString(), "\nrest: ", rest.ToString(), "\n", texts,
                      " texts, ended ", ended, ", accepted ", accepted, ", rejected rounds ",
                      rejected_rounds, ", whole blocks ", whole_blocks, ", plain rounds ",
                      plain_rounds);
}

Judgement MeasureTexts(InProcessCluster& cluster, const TextsOptions& options,
                       uint32_t vocabulary_size, TargetDistribution p) {
  TextJudge judge(options, vocabulary_size, std::move(p));
  for (int done = 0; done < options.requests; done += kPortion) {
    std::vector<v1::GenerateRequest> requests;
    for (int i = done; i < std::min(done + kPortion, options.requests); ++i) {
      requests.push_back(TextRequest(options, options.first_seed + i));
    }
    const int at_once = std::max(1, kTextsAtOnce / static_cast<int>(options.samples));
    for (const Reply& reply : SendAll(cluster.channel(), requests, at_once)) judge.Add(reply);
  }
  return judge.Finish();
}

}  // namespace tandem::testing
