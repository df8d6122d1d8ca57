// The second turn of a chat beside its first one: time to the first token, and to the end of a short
// answer, with a cache_scope and without. A pair of random weights, so that the times are those of
// computing and the contexts may be long.
// Usage: second_turn [turns] [tokens of the first prompt] [threads]
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/model/random_model.h"
#include "bench/model/timing.h"
#include "common/base/check.h"
#include "tests/integration/cluster.h"
#include "tests/integration/models.h"
#include "tests/integration/requests.h"

namespace tandem::testing {
namespace {

constexpr uint32_t kAnswer = 32;    // tokens
constexpr uint32_t kQuestion = 64;  // of the second turn, after the answer

struct Times {
  double first_token = 0;  // microseconds
  double end = 0;
  Reply reply;
};

Times Measure(InProcessCluster& cluster, const std::vector<uint32_t>& prompt,
              const std::string& scope) {
  v1::GenerateRequest request = GreedyRequest(prompt, kAnswer, 4);
  request.mutable_stop()->set_ignore_eos(true);
  request.set_cache_scope(scope);
  Times times;
  const auto start = std::chrono::steady_clock::now();
  const auto now = [start] {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
        .count();
  };
  times.reply = Send(cluster.channel(), request, [&](const Reply&) {
    if (times.first_token == 0) times.first_token = now();
  });
  times.end = now();
  TANDEM_CHECK_OK(times.reply.status);
  return times;
}

void Print(const char* what, const std::vector<double>& values, double unit, const char* name) {
  const bench::Spread spread = bench::SpreadOf(values);
  std::printf("%-52s %8.3f / %8.3f / %8.3f%s\n", what, spread.min / unit, spread.median / unit,
              spread.max / unit, name);
}

void Run(int turns, int length, int threads) {
  ClusterOptions options;
  options.tokenizer = LoadTokenizer(DemoTarget());
  const auto vocabulary = static_cast<int>(options.tokenizer->vocabulary_size());
  const int context = length + 1024;
  const int64_t pool = int64_t{4} * context;
  options.target_model =
      bench::RandomModel(bench::RandomSpec(512, 1408, 8, 8, 2, vocabulary, context), "BF16",
                         model::Dtype::kAuto, threads, pool);
  options.draft_model =
      bench::RandomModel(bench::RandomSpec(256, 704, 4, 4, 2, vocabulary, context), "BF16",
                         model::Dtype::kAuto, threads, pool);
  InProcessCluster cluster(std::move(options));
  std::mt19937 random(1);
  std::vector<double> first, second, shared, to_first, to_second, ends, shared_ends;
  for (int turn = 0; turn < turns; ++turn) {
    std::vector<uint32_t> prompt(static_cast<size_t>(length));
    for (uint32_t& token : prompt) token = 10 + random() % (static_cast<uint32_t>(vocabulary) - 10);
    const std::string scope = absl::StrCat("chat ", turn);
    const Times one = Measure(cluster, prompt, scope);
    std::vector<uint32_t> longer = prompt;
    longer.insert(longer.end(), one.reply.ids.begin(), one.reply.ids.end());
    for (uint32_t i = 0; i < kQuestion; ++i) longer.push_back(10 + i);
    // In an order that changes. Without a scope nothing is shared or kept.
    std::array<Times, 2> two;
    for (int i = 0; i < 2; ++i) {
      const int with = (i + turn) % 2;
      two[with] = Measure(cluster, longer, with == 1 ? scope : "");
    }
    TANDEM_CHECK(two[0].reply.ids == two[1].reply.ids);
    first.push_back(one.first_token);
    second.push_back(two[0].first_token);
    shared.push_back(two[1].first_token);
    ends.push_back(two[0].end);
    shared_ends.push_back(two[1].end);
    to_first.push_back(two[1].first_token / one.first_token);
    to_second.push_back(two[1].end / two[0].end);
    std::printf("turn %d: %u of %zu tokens were shared\n", turn,
                two[1].reply.record().cached_tokens(), longer.size());
  }
  Print("first turn, first token", first, 1000, " ms");
  Print("second turn, first token, nothing shared", second, 1000, " ms");
  Print("second turn, first token, shared", shared, 1000, " ms");
  Print("second turn, whole answer, nothing shared", ends, 1000, " ms");
  Print("second turn, whole answer, shared", shared_ends, 1000, " ms");
  Print("first token: shared second turn to the first turn", to_first, 1, "");
  Print("whole answer: shared to not shared", to_second, 1, "");
}

}  // namespace
}  // namespace tandem::testing

int main(int argc, char** argv) {
  const int turns = argc > 1 ? std::atoi(argv[1]) : 5;
  const int length = argc > 2 ? std::atoi(argv[2]) : 4096;
  const int threads = argc > 3 ? std::atoi(argv[3]) : 2;
  if (turns < 1 || length < 1 || threads < 1) {
    std::fprintf(stderr, "usage: second_turn [turns] [tokens of the first prompt] [threads]\n");
    return 2;
  }
  std::printf("a first prompt of %d tokens; least / median / most of %d turns\n", length, turns);
  tandem::testing::Run(turns, length, threads);
  return 0;
}
