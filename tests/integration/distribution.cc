#include "tests/integration/distribution.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/check.h"

namespace tandem::testing {
namespace {

constexpr int kAtOnce = 64;
// A context that was seen less often says nothing.
constexpr int64_t kLeastSeen = 200;

std::vector<double> Dense(const sampling::Distribution& p, uint32_t vocabulary_size) {
  std::vector<double> dense(vocabulary_size);
  for (size_t i = 0; i < p.ids.size(); ++i) dense[p.ids[i]] = p.probabilities[i];
  return dense;
}

// The probability of each text of kJointTokens tokens, in the order of the cells.
std::vector<double> ExactJoint(const std::vector<uint32_t>& prompt, uint32_t vocabulary_size,
                               const TargetDistribution& p) {
  std::vector<std::pair<std::vector<uint32_t>, double>> level = {{prompt, 1}};
  for (uint32_t i = 0; i < kJointTokens; ++i) {
    std::vector<std::pair<std::vector<uint32_t>, double>> next;
    for (const auto& [tokens, probability] : level) {
      const std::vector<double> dense = Dense(p(tokens), vocabulary_size);
      for (uint32_t token = 0; token < vocabulary_size; ++token) {
        next.emplace_back(tokens, probability * dense[token]);
        next.back().first.push_back(token);
      }
    }
    level = std::move(next);
  }
  std::vector<double> joint;
  for (const auto& [tokens, probability] : level) joint.push_back(probability);
  return joint;
}

// Counts of what followed one context, and how often p expected it.
struct Followers {
  std::vector<int64_t> counts;
  std::vector<double> expected;
  int64_t seen = 0;
};

}  // namespace

std::vector<Reply> SampleTexts(InProcessCluster& cluster, const TextsOptions& options) {
  std::vector<v1::GenerateRequest> requests(options.requests);
  for (int i = 0; i < options.requests; ++i) {
    v1::GenerateRequest& request = requests[i];
    request.mutable_ids()->mutable_ids()->Add(options.prompt.begin(), options.prompt.end());
    request.set_max_tokens(kTextTokens);
    request.set_seed(options.first_seed + i);
    request.mutable_sampling()->set_temperature(static_cast<float>(options.sampling.temperature));
    request.mutable_sampling()->set_top_k(options.sampling.top_k);
    request.mutable_sampling()->set_top_p(static_cast<float>(options.sampling.top_p));
    request.mutable_speculation()->set_fixed(options.draft_tokens);
    request.mutable_speculation()->set_drafter(options.drafter);
    request.mutable_speculation()->set_rule(v1::RULE_SPECULATIVE);
  }
  std::vector<Reply> replies = SendAll(cluster.channel(), requests, kAtOnce);
  for (const Reply& reply : replies) {
    TANDEM_CHECK_OK(reply.status);
    TANDEM_CHECK(reply.ids.size() == kTextTokens) << reply.ids.size();
  }
  return replies;
}

Judgement Judge(const std::vector<Reply>& replies, const TextsOptions& options,
                uint32_t vocabulary_size, const TargetDistribution& p) {
  const std::vector<double> exact = ExactJoint(options.prompt, vocabulary_size, p);
  std::vector<int64_t> joint(exact.size());
  std::map<std::pair<uint32_t, uint32_t>, Followers> transitions;
  Judgement judgement;
  for (const Reply& reply : replies) {
    size_t cell = 0;
    for (uint32_t i = 0; i < kJointTokens; ++i) cell = cell * vocabulary_size + reply.ids[i];
    ++joint[cell];
    std::vector<uint32_t> tokens = options.prompt;
    tokens.insert(tokens.end(), reply.ids.begin(), reply.ids.end());
    for (size_t i = options.prompt.size() + kJointTokens; i < tokens.size(); ++i) {
      Followers& followers = transitions[{tokens[i - 2], tokens[i - 1]}];
      followers.counts.resize(vocabulary_size);
      followers.expected.resize(vocabulary_size);
      const sampling::Distribution row = p(absl::MakeSpan(tokens).first(i));
      for (size_t j = 0; j < row.ids.size(); ++j) {
        followers.expected[row.ids[j]] += row.probabilities[j];
      }
      ++followers.counts[tokens[i]];
      ++followers.seen;
    }
    judgement.accepted += reply.record().accepted();
    judgement.rejected_rounds += reply.record().rejected_rounds();
    for (const auto& caused : reply.record().rounds_without_draft()) {
      judgement.plain_rounds += caused.rounds();
    }
    if (reply.record().accepted_histogram_size() > static_cast<int>(options.draft_tokens)) {
      judgement.whole_blocks +=
          reply.record().accepted_histogram(static_cast<int>(options.draft_tokens));
    }
  }
  judgement.joint = GoodnessOfFit(exact, joint);
  std::vector<ChiSquare> parts;
  for (auto& [context, followers] : transitions) {
    if (followers.seen < kLeastSeen) continue;
    for (double& expected : followers.expected) expected /= static_cast<double>(followers.seen);
    parts.push_back(GoodnessOfFit(followers.expected, followers.counts));
  }
  judgement.transitions = Combine(parts);
  return judgement;
}

std::string Judgement::ToString() const {
  return absl::StrCat("joint: ", joint.ToString(), "\ntransitions: ", transitions.ToString(),
                      "\naccepted ", accepted, ", rejected rounds ", rejected_rounds,
                      ", whole blocks ", whole_blocks, ", plain rounds ", plain_rounds);
}

}  // namespace tandem::testing
