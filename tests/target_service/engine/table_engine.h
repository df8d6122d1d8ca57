// An engine without a model: what follows a token is a row of a table of probabilities. Some
// passes may be in flight; it judges by two rules, and tells no log probabilities.
#pragma once

#include <cmath>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "common/sampling/token_history.h"
#include "target_service/engine/engine.h"

namespace tandem::target_service {

class TableEngine final : public Engine {
 public:
  using Table = std::vector<std::vector<float>>;  // [token before][token]: logarithms

  explicit TableEngine(Table table, int max_passes_in_flight = 2) : table_(std::move(table)) {
    info_.model.vocabulary_size = static_cast<uint32_t>(table_.size());
    info_.model.context_length = 256;
    info_.rules = {acceptance::Rule::kGreedy, acceptance::Rule::kCoupled};
    info_.max_rows = 64;
    info_.max_passes_in_flight = max_passes_in_flight;
  }

  // Of the token after `context`.
  static sampling::Distribution P(const Table& table, const std::vector<uint32_t>& context,
                                  const speculation::SequenceSettings& settings) {
    sampling::TokenHistory history(settings.prompt_tokens);
    history.Append(context);
    return sampling::MakeDistribution(table[context.back() % table.size()],
                                      static_cast<uint32_t>(table.size()), settings.sampling,
                                      history);
  }

  const EngineInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<EngineSequence>> Open(int max_length) override {
    return std::make_unique<Sequence>(max_length);
  }
  void Launch(std::vector<PassPart> parts) override {
    launched_behind = flights_.size();
    flights_.push_back(std::move(parts));
  }
  PassResult Await() override {
    const std::vector<PassPart> parts = std::move(flights_.front());
    flights_.pop_front();
    PassResult result;
    result.status = std::exchange(failure, absl::OkStatus());
    if (!result.status.ok()) return result;
    for (const PassPart& part : parts) result.parts.push_back(Compute(part));
    return result;
  }
  absl::Status DeviceStatus() override { return device; }
  absl::StatusOr<ProbedPass> Probe(int rows) override {
    if (!device.ok()) return device;
    return ProbedPass{rows, {}};
  }

  size_t in_flight() const { return flights_.size(); }
  size_t launched_behind = 0;  // how many passes were in flight when the last one was launched

  absl::Status failure;  // of the next pass that is awaited
  absl::Status device;

 private:
  struct Sequence final : EngineSequence {
    explicit Sequence(int room) : max(room) {}
    int max_length() const override { return max; }
    const int max;
    std::vector<uint32_t> tokens;
  };

  PartResult Compute(const PassPart& part) const {
    std::vector<uint32_t>& tokens = static_cast<Sequence*>(part.sequence)->tokens;
    tokens.resize(static_cast<size_t>(part.start));
    tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
    if (part.block == nullptr) return {};
    const speculation::SequenceSettings& settings = *part.settings;
    std::vector<uint32_t> path(tokens.begin(), tokens.begin() + part.committed());
    std::vector<sampling::Distribution> p = {P(table_, path, settings)};
    for (uint32_t candidate : part.block->tokens) {
      path.push_back(candidate);
      p.push_back(P(table_, path, settings));
    }
    acceptance::JudgeInput input;
    input.rule = settings.rule;
    input.key = {settings.seed, settings.sample_index, part.committed()};
    input.p = p;
    input.candidates = part.block->tokens;
    PartResult result;
    result.entries = acceptance::Judge(input);
    return result;
  }

  const Table table_;
  EngineInfo info_;
  std::deque<std::vector<PassPart>> flights_;
};

}  // namespace tandem::target_service
