// What speculation wins on a target in the shape of a model that people have, if each draft token
// is accepted with a given chance: whole requests with and without the draft, interleaved, beside
// what theory predicts from passes measured in the same turn. Weights are random. The drafter knows
// the target's text, and says a wrong token as often as it has to; it takes no time.
// Usage: forced_acceptance [turns] [threads] [shape: all, 0.5B, 1B, 7B] [dtype] [draft tokens]
// [chance] [tokens]
// A shape with a slash is a model's directory, as bench/model/random_model.py writes it. It runs
// with --offload, so run it in a control group of less memory than the model takes.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/model/shapes.h"
#include "bench/model/timing.h"
#include "common/base/check.h"
#include "common/random/random.h"
#include "common/theory/speedup.h"
#include "model/load.h"
#include "tests/integration/cluster.h"
#include "tests/integration/models.h"
#include "tests/integration/requests.h"

namespace tandem::testing {
namespace {

constexpr uint32_t kPrompt = 32;  // tokens
constexpr int kPasses = 4;        // of each kind, before and after the requests of a turn
constexpr int kContext = 512;

struct Setting {
  int turns = 5;
  int threads = 2;
  model::Dtype dtype = model::Dtype::kBfloat16;
  int draft_tokens = 4;
  double chance = 0.7;
  uint32_t output = 128;  // tokens
};

struct Subject {
  std::string what;
  std::unique_ptr<model::LanguageModel> model;
};

Subject Random(const bench::Shape& shape, const Setting& setting) {
  const bool bf16 = setting.dtype == model::Dtype::kBfloat16;
  return {absl::StrCat(shape.what, ", ", DtypeName(setting.dtype)),
          bench::RandomModel(shape.spec, bf16 ? "BF16" : "F32", setting.dtype, setting.threads,
                             4 * kContext)};
}

Subject Offloaded(const std::string& directory, const Setting& setting) {
  model::LoadOptions options;
  options.directory = directory;
  options.threads = setting.threads;
  options.max_rows = kPrompt;
  options.pool_tokens = 4 * kContext;
  options.offload = true;
  model::LoadReport report;
  options.report = &report;
  auto model = model::Load(options);
  TANDEM_CHECK(model.ok()) << model.status();
  return {report.Text(), *std::move(model)};
}

// The text of the request that runs, prompt and output, and its number.
struct Known {
  std::vector<uint32_t> text;
  uint64_t turn = 0;
};

class ForcedDrafter final : public draft_service::Drafter {
 public:
  ForcedDrafter(std::shared_ptr<const Known> known, double chance)
      : known_(std::move(known)), chance_(chance) {}

  absl::Status Accept(uint32_t keep, absl::Span<const uint32_t> tokens) override {
    committed_ = keep + tokens.size();
    return absl::OkStatus();
  }

  absl::StatusOr<draft_service::CandidateTree> Propose(uint32_t max_draft_tokens) override {
    draft_service::CandidateTree block;
    for (size_t at = committed_; at < known_->text.size(); ++at) {
      if (block.tokens.size() == max_draft_tokens) break;
      const double u =
          random::Uniform({known_->turn, 0, 0}, static_cast<uint32_t>(at), random::Purpose::kUser);
      block.tokens.push_back(u < chance_ ? known_->text[at] : known_->text[at] ^ 1);
    }
    return block;
  }

 private:
  const std::shared_ptr<const Known> known_;
  const double chance_;
  size_t committed_ = 0;
};

// Passes of one row and of a block's after a short context, interleaved. Only while no request
// runs.
class PassTimes {
 public:
  PassTimes(model::LanguageModel& model, int rows) : model_(model), rows_(rows) {}

  void Measure(int times) {
    auto cache = *model_.NewCache(kContext);
    const std::vector<uint32_t> tokens(kPrompt, 7);
    TANDEM_CHECK(model_.Forward({{cache.get(), tokens, 0}}).ok());
    for (int i = 0; i < times; ++i) {
      for (const bool block : {false, true}) {
        cache->Truncate(kPrompt);
        const auto part = absl::MakeSpan(tokens).first(block ? rows_ : 1);
        (block ? block_ : one_).push_back(bench::Microseconds([&] {
          TANDEM_CHECK(model_.Forward({{cache.get(), part, 0}}).ok());
        }));
      }
    }
  }

  // Medians, in microseconds.
  double one() const { return bench::SpreadOf(one_).median; }
  double block() const { return bench::SpreadOf(block_).median; }

 private:
  model::LanguageModel& model_;
  const int rows_;
  std::vector<double> one_;
  std::vector<double> block_;
};

void Measure(Subject subject, const Setting& setting) {
  ClusterOptions options;
  options.tokenizer = LoadTokenizer(DemoTarget());
  options.without_sockets = true;
  model::LanguageModel& model = *subject.model;
  options.target_model = std::move(subject.model);
  // Written while no request runs.
  std::shared_ptr<const Known> known;
  options.instead_of_model.make =
      [&known, &setting](
          const speculation::SequenceSettings&,
          speculation::Proposal) -> absl::StatusOr<std::unique_ptr<draft_service::Drafter>> {
    return std::make_unique<ForcedDrafter>(known, setting.chance);
  };
  InProcessCluster cluster(std::move(options));
  std::vector<double> plain, drafted, ratios, accepted, one, block, predicted, to_predicted;
  for (int turn = -1; turn < setting.turns; ++turn) {
    std::vector<uint32_t> prompt(kPrompt);
    for (uint32_t i = 0; i < kPrompt; ++i) prompt[i] = 10 + (i * 37 + turn * 101 + 101) % 4000;
    // The passes of a turn are measured before and after its requests, so that a machine whose
    // speed moves does not decide.
    PassTimes passes(model, setting.draft_tokens + 1);
    passes.Measure(kPasses);
    double rates[2];
    std::vector<uint32_t> ids[2];
    for (const bool with : {false, true}) {
      v1::GenerateRequest request = GreedyRequest(
          prompt, setting.output, with ? static_cast<uint32_t>(setting.draft_tokens) : 0);
      request.mutable_stop()->set_ignore_eos(true);
      const Reply reply = Send(cluster.channel(), request);
      TANDEM_CHECK_OK(reply.status);
      ids[with] = reply.ids;
      // Without the first token, which waits for the prompt.
      const v1::Timing& timing = reply.last.timing();
      rates[with] = (setting.output - 1) * 1e6 /
                    static_cast<double>(timing.total_us() - timing.first_token_us());
      if (!with) {
        Known now{prompt, static_cast<uint64_t>(turn + 1)};
        now.text.insert(now.text.end(), reply.ids.begin(), reply.ids.end());
        known = std::make_shared<const Known>(std::move(now));
      } else if (turn >= 0) {
        accepted.push_back(static_cast<double>(reply.record().accepted_tokens()) /
                           static_cast<double>(reply.record().accepted_tokens() +
                                               reply.record().rejected_rounds()));
      }
    }
    TANDEM_CHECK(ids[0] == ids[1]);
    passes.Measure(kPasses);
    if (turn < 0) continue;  // warms up
    one.push_back(passes.one() / 1e3);
    block.push_back(passes.block() / 1e3);
    predicted.push_back(theory::ExpectedTokens(setting.chance, setting.draft_tokens) *
                        passes.one() / passes.block());
    to_predicted.push_back(rates[1] / rates[0] / predicted.back());
    plain.push_back(rates[0]);
    drafted.push_back(rates[1]);
    ratios.push_back(rates[1] / rates[0]);
  }
  const auto print = [](const char* what, std::vector<double> values) {
    const bench::Spread spread = bench::SpreadOf(std::move(values));
    std::printf("  %-30s %7.2f / %7.2f / %7.2f\n", what, spread.min, spread.median, spread.max);
  };
  std::printf("\n%s\n", subject.what.c_str());
  print("a pass of one row, ms", one);
  print("a pass of a block, ms", block);
  print("tokens per second, plain decoding", plain);
  print("tokens per second, with drafts", drafted);
  print("ratio, of the same turn", ratios);
  print("accepted of the tested", accepted);
  print("ratio that theory predicts", predicted);
  print("ratio to the predicted one", to_predicted);
  std::fflush(stdout);
}

}  // namespace
}  // namespace tandem::testing

int main(int argc, char** argv) {
  tandem::testing::Setting setting;
  if (argc > 1) setting.turns = std::atoi(argv[1]);
  if (argc > 2) setting.threads = std::atoi(argv[2]);
  const std::string wanted = argc > 3 ? argv[3] : "all";
  if (argc > 4) {
    const auto dtype = tandem::model::ParseDtype(argv[4]);
    TANDEM_CHECK(dtype.ok()) << dtype.status();
    setting.dtype = *dtype;
  }
  if (argc > 5) setting.draft_tokens = std::atoi(argv[5]);
  if (argc > 6) setting.chance = std::atof(argv[6]);
  if (argc > 7) setting.output = static_cast<uint32_t>(std::atoi(argv[7]));
  if (setting.turns < 1 || setting.threads < 1 || setting.draft_tokens < 1) return 2;
  std::printf("%d threads, chance %.2f; least / median / most of %d turns\n", setting.threads,
              setting.chance, setting.turns);
  if (wanted.find('/') != std::string::npos) {
    tandem::testing::Measure(tandem::testing::Offloaded(wanted, setting), setting);
    return 0;
  }
  for (const auto& shape : tandem::bench::Shapes(tandem::testing::kContext)) {
    if (wanted == "all" || wanted == shape.name) {
      tandem::testing::Measure(tandem::testing::Random(shape, setting), setting);
    }
  }
  return 0;
}
