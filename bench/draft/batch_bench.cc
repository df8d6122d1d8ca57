// Blocks of many sequences drafted together beside one by one, through the drafting thread's own
// code without transport; and what a lone client waits for a block while another has many sequences
// at work.
// Usage: draft_batch_bench [directory of a model, or random] [rounds] [threads] [most sequences]
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/model/random_model.h"
#include "bench/model/timing.h"
#include "common/base/check.h"
#include "common/concurrency/system_clock.h"
#include "common/speculation/prefix.h"
#include "draft_service/drafters/model_drafter.h"
#include "draft_service/serving/executor.h"
#include "draft_service/serving/session.h"
#include "model/load.h"

namespace tandem::bench {
namespace {

using draft_service::BlockSink;
using draft_service::Executor;

constexpr uint32_t kBase = 100;  // tokens of each text that stay
constexpr uint32_t kCandidates = 4;

class CountingSink final : public BlockSink {
 public:
  bool Send(internal::v1::DraftReply reply) override {
    if (!reply.has_block()) return true;
    TANDEM_CHECK(reply.block().status() == internal::v1::STATUS_OK)
        << reply.block().ShortDebugString();
    TANDEM_CHECK(reply.block().tokens_size() == static_cast<int>(kCandidates));
    ++blocks;
    return true;
  }
  void Close(absl::Status) override {}
  size_t queued() const override { return 0; }

  int blocks = 0;
};

// A client with so many sequences.
class Client {
 public:
  Client(Executor& executor, draft_service::SessionContext& context, const std::string& name,
         int sequences)
      : executor_(executor), sink_(std::make_shared<CountingSink>()), session_(context, sink_) {
    internal::v1::DraftRequest hello;
    hello.mutable_hello()->set_protocol_revision(1);
    hello.mutable_hello()->set_client_id(name);
    session_.OnMessage(hello);
    for (int i = 0; i < sequences; ++i) {
      std::vector<uint32_t>& text = texts_.emplace_back();
      for (uint32_t t = 0; t < kBase; ++t)
        text.push_back(1 + (t * 7 + static_cast<uint32_t>(i)) % 200);
      text.push_back(0);
      internal::v1::DraftRequest open;
      open.mutable_open()->set_sequence(static_cast<uint64_t>(i));
      open.mutable_open()->mutable_options()->set_rule(v1::RULE_SPECULATIVE);
      open.mutable_open()->mutable_options()->set_seed(static_cast<uint64_t>(i));
      open.mutable_open()->mutable_options()->set_max_length(300);
      SetPrefix(text, 0, *open.mutable_open()->mutable_prefix());
      session_.OnMessage(open);
    }
    while (executor_.RunOnce()) {
    }
  }

  void Ask(int sequence) {
    std::vector<uint32_t>& text = texts_[static_cast<size_t>(sequence)];
    text.back() = 1 + static_cast<uint32_t>(++round_ % 200);
    internal::v1::DraftRequest request;
    internal::v1::Advance& advance = *request.mutable_advance();
    advance.set_sequence(static_cast<uint64_t>(sequence));
    advance.set_round(round_);
    SetPrefix(text, kBase, *advance.mutable_prefix());
    advance.mutable_shape()->set_max_draft_tokens(kCandidates);
    session_.OnMessage(request);
  }
  void AskAll() {
    for (int i = 0; i < static_cast<int>(texts_.size()); ++i) Ask(i);
  }
  void OneByOne() {
    for (int i = 0; i < static_cast<int>(texts_.size()); ++i) {
      Ask(i);
      RunAll();
    }
  }
  void RunAll() {
    while (executor_.RunOnce()) {
    }
  }
  int blocks() const { return sink_->blocks; }
  void End() { session_.OnDone(absl::OkStatus()); }

 private:
  static void SetPrefix(absl::Span<const uint32_t> text, uint32_t keep,
                        internal::v1::Prefix& prefix) {
    prefix.set_keep(keep);
    for (uint32_t token : text.subspan(keep)) prefix.add_tokens(token);
    prefix.set_hash(speculation::PrefixHash(text));
  }

  Executor& executor_;
  std::shared_ptr<CountingSink> sink_;
  draft_service::Session session_;
  std::vector<std::vector<uint32_t>> texts_;
  uint64_t round_ = 0;
};

struct Bench {
  Bench(model::LanguageModel& model, int pass_rows) {
    options.clock = &clock;
    options.vocabulary_size = model.info().vocabulary_size;
    options.drafters = {draft_service::ModelDrafterFactory(model, {})};
    options.pass_rows = pass_rows;
    executor = std::make_unique<Executor>(options);
    context = std::make_unique<draft_service::SessionContext>(options, *executor);
  }

  concurrency::SteadyClock clock;
  draft_service::Options options;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<draft_service::SessionContext> context;
};

std::string Name(int pass_rows) { return pass_rows == 0 ? "auto" : std::to_string(pass_rows); }

void MeasureThroughput(model::LanguageModel& model, int pass_rows, int sequences, int rounds) {
  Bench bench(model, pass_rows);
  Client client(*bench.executor, *bench.context, "many", sequences);
  client.OneByOne();
  for (int i = 0; i < 5; ++i) {
    client.AskAll();
    client.RunAll();
  }
  std::vector<double> alone, together, ratios;
  for (int round = 0; round < rounds; ++round) {
    const double one_by_one = Microseconds([&] { client.OneByOne(); });
    const double batched = Microseconds([&] {
      client.AskAll();
      client.RunAll();
    });
    alone.push_back(sequences / one_by_one * 1e6);
    together.push_back(sequences / batched * 1e6);
    ratios.push_back(one_by_one / batched);
  }
  TANDEM_CHECK(client.blocks() == sequences * (6 + 2 * rounds));
  const Spread ratio = SpreadOf(ratios);
  std::printf("%9s %9d %16.0f %16.0f   %.2f / %.2f / %.2f\n", Name(pass_rows).c_str(), sequences,
              SpreadOf(alone).median, SpreadOf(together).median, ratio.min, ratio.median,
              ratio.max);
  std::fflush(stdout);
}

// The time of a lone client's block while another's `many` sequences are at work, beside its time
// alone.
void MeasureLone(model::LanguageModel& model, int pass_rows, int sequences, int rounds) {
  Bench bench(model, pass_rows);
  Client lone(*bench.executor, *bench.context, "lone", 1);
  Client many(*bench.executor, *bench.context, "many", sequences);
  auto ask = [&] {
    const int before = lone.blocks();
    lone.Ask(0);
    while (lone.blocks() == before) bench.executor->RunOnce();
  };
  ask();
  std::vector<double> alone, beside, ratios;
  for (int round = 0; round < rounds; ++round) {
    alone.push_back(Microseconds(ask));
    many.AskAll();
    bench.executor->RunOnce();  // all of them are at work
    beside.push_back(Microseconds(ask));
    many.RunAll();
    ratios.push_back(beside.back() / alone.back());
  }
  const Spread ratio = SpreadOf(ratios);
  std::printf("%9s %16.0f %16.0f   %.2f / %.2f / %.2f\n", Name(pass_rows).c_str(),
              SpreadOf(alone).median, SpreadOf(beside).median, ratio.min, ratio.median, ratio.max);
  std::fflush(stdout);
}

std::unique_ptr<model::LanguageModel> LoadModel(const std::string& directory, int threads) {
  if (directory == "random") return RandomModel("BF16", threads, 16384);
  auto model = model::Load({.directory = directory, .threads = threads});
  TANDEM_CHECK_OK(model);
  return *std::move(model);
}

void Main(const std::string& directory, int rounds, int threads, int max_sequences) {
  const auto model = LoadModel(directory, threads);
  std::printf("%s, %d threads, blocks of %u candidates after %u tokens, sampled; %d rounds\n\n",
              directory.c_str(), threads, kCandidates, kBase + 1, rounds);
  std::printf("%9s %9s %16s %16s   %s\n", "pass rows", "sequences", "one by one /s", "together /s",
              "ratio: least / median / most");
  for (int pass_rows : {0, 256}) {
    for (int sequences : {1, 4, 16, 64}) {
      if (sequences > max_sequences) break;
      MeasureThroughput(*model, pass_rows, sequences, rounds);
    }
  }
  std::printf("\n%9s %16s %16s   %s\n", "pass rows", "alone us", "beside us",
              "ratio: least / median / most");
  for (int pass_rows : {0, 4, 16, 256}) MeasureLone(*model, pass_rows, max_sequences, rounds);
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  tandem::bench::Main(argc > 1 ? argv[1] : "demo/draft", argc > 2 ? std::atoi(argv[2]) : 30,
                      argc > 3 ? std::atoi(argv[3]) : 1, argc > 4 ? std::atoi(argv[4]) : 64);
}
