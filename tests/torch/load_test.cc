// From a device that computes wrongly in one way to the way that serves: what is switched off, and
// where that is said. The library here is a fake whose step is the decoder of model/, with a fault
// of our choice for each way.
#include "torch/load.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/decoder.h"
#include "tests/support/paths.h"
#include "tests/torch/kernels/host_pass_kernels.h"
#include "torch/path_choice.h"
#include "torch/torch_model.h"

namespace tandem::torch {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kWholePages = 20;  // another number than the self-check has

// Spoils the logits of a pass.
using LogitsFault = std::function<void(const PassRows& pass, std::vector<float>& logits)>;

// Of each way, by its name, with " whole" behind it where products are of all rows. make_step is a
// plain function, so there is one list, as of all below.
std::map<std::string, LogitsFault> faults;
bool capture_fails = false;  // of any model
bool kernels_load = true;
bool whole_capture_fails = false;  // of a whole model
int loads = 0;                     // of weights

struct FakeWeights final : public StepWeights {
  explicit FakeWeights(const model::DecoderTensors& loaded) : tensors(loaded) {}
  const model::DecoderTensors tensors;
};

// Sequences are known by their first page.
class FakeStep final : public Step {
 public:
  FakeStep(const StepOptions& options, const model::DecoderSpec& spec,
           const model::DecoderTensors& tensors)
      : context_(spec.context_length),
        decoder_(spec, model::DecoderWeights(spec, tensors, model::Dtype::kAuto, nullptr),
                 OptionsOf(options), {}),
        fault_(faults[PathName({options.attention, options.graphs}) +
                      (options.whole_products ? " whole" : "")]) {
    info_.device = "fake card";
    info_.tile = options.tile;
  }

  const StepInfo& info() const override { return info_; }

  absl::Status Run(const PassRows& pass) override {
    std::vector<std::vector<uint32_t>> tokens(pass.pages.size());
    std::vector<std::vector<int>> parents(pass.pages.size());
    std::vector<model::ForwardPart> parts;
    for (size_t i = 0; i < pass.rows.size();) {
      const int part = pass.rows[i].part;
      const int first = static_cast<int>(pass.rows[i].cell);
      bool tree = false;
      std::vector<int> before;
      for (; i < pass.rows.size() && pass.rows[i].part == part; ++i) {
        const Row& row = pass.rows[i];
        tokens[part].push_back(static_cast<uint32_t>(row.token));
        before.push_back(std::max(CellBefore(row) - first, -1));
        tree = tree || row.visible != row.straight;
      }
      if (tree) parents[part] = before;
      auto& [cache, base] = caches_[pass.pages[part][0]];
      if (cache == nullptr) cache = *decoder_.NewCache(context_);
      cache->Truncate(first);
      base = first;
      parts.push_back({cache.get(), tokens[part], 0, parents[part]});
    }
    const absl::StatusOr<model::Logits> logits = decoder_.Forward(parts);
    if (!logits.ok()) return logits.status();
    logits_.clear();
    for (int row : pass.logits_rows) {
      logits_.insert(logits_.end(), logits->row(row).begin(), logits->row(row).end());
    }
    if (fault_ && !logits_.empty()) fault_(pass, logits_);
    return absl::OkStatus();
  }
  DeviceLogits logits() const override {
    return {logits_.data(), static_cast<int64_t>(decoder_.info().vocabulary_size)};
  }
  absl::Status ReadLogits(float*) override { return absl::UnimplementedError("they are here"); }
  // Of one sequence, in its first page: the path that is kept of its last part.
  absl::Status MoveCells(absl::Span<const CellMove> moves) override {
    auto& [cache, base] = caches_.at(static_cast<uint32_t>(moves[0].to / kPageTokens));
    std::vector<int> path;
    while (static_cast<int>(path.size()) < moves[0].to % kPageTokens - base) {
      path.push_back(static_cast<int>(path.size()));  // stays where it is
    }
    for (const CellMove& move : moves) {
      path.push_back(static_cast<int>(move.from % kPageTokens) - base);
    }
    cache->Keep(path);
    return absl::OkStatus();
  }

 private:
  struct Sequence {
    std::unique_ptr<model::Cache> cache;
    int base = 0;  // of its last part
  };

  static model::DecoderOptions OptionsOf(const StepOptions& options) {
    model::DecoderOptions decoder;
    decoder.max_rows = options.max_rows;
    decoder.pool_tokens = int64_t{options.pages} * kPageTokens;
    return decoder;
  }
  // The cell of the token that a row's token follows; negative: there is none.
  static int CellBefore(const Row& row) {
    const int rest = row.visible - row.straight;
    if (rest >= 2) return row.rest[rest - 2];
    return rest == 1 ? row.straight - 1 : row.visible - 2;
  }

  const int context_;
  model::Decoder decoder_;
  const LogitsFault fault_;
  StepInfo info_;
  std::map<uint32_t, Sequence> caches_;
  std::vector<float> logits_;
};

// The fake step does not call them.
absl::StatusOr<std::unique_ptr<kernels::PassKernels>> LoadKernels(int /*card*/) {
  if (!kernels_load) return absl::FailedPreconditionError("NVRTC is not there");
  return std::make_unique<kernels::HostPassKernels<>>();
}

absl::StatusOr<std::shared_ptr<const StepWeights>> LoadFakeWeights(
    const StepOptions& options, const model::DecoderSpec& /*spec*/,
    const model::DecoderTensors& tensors) {
  ++loads;
  if (options.progress) options.progress(1, 1);
  return std::make_shared<const FakeWeights>(tensors);
}

absl::StatusOr<std::unique_ptr<Step>> MakeFakeStep(const StepOptions& options,
                                                   const model::DecoderSpec& spec,
                                                   std::shared_ptr<const StepWeights> weights) {
  const bool whole = options.pages == kWholePages;
  if (options.graphs && (capture_fails || (whole && whole_capture_fails))) {
    return absl::InternalError("LibTorch failed to begin a capture");
  }
  EXPECT_EQ(options.attention != Attention::kGather, options.kernels != nullptr);
  return std::make_unique<FakeStep>(options, spec,
                                    static_cast<const FakeWeights&>(*weights).tensors);
}

// Rows of a pass of several sequences come back in another order.
void SwapsHalves(const PassRows& pass, std::vector<float>& logits) {
  if (pass.pages.size() < 2) return;
  std::rotate(logits.begin(), logits.begin() + static_cast<ptrdiff_t>(logits.size() / 2),
              logits.end());
}
void IsHalfTooLarge(const PassRows&, std::vector<float>& logits) {
  for (float& logit : logits) logit *= 1.5f;
}
// What the pass before of the same shape gave.
LogitsFault ReplaysStaleInput() {
  auto stale = std::make_shared<std::map<size_t, std::vector<float>>>();
  return [stale](const PassRows&, std::vector<float>& logits) {
    std::vector<float>& before = (*stale)[logits.size()];
    if (before.empty()) before = logits;
    before.swap(logits);
  };
}

class LoadTest : public ::testing::Test {
 protected:
  LoadTest() {
    faults.clear();
    capture_fails = whole_capture_fails = false;
    loads = 0;
    kernels_load = true;
  }

  absl::StatusOr<std::unique_ptr<model::LanguageModel>> LoadIt(
      int tile = 64, ComputeType type = ComputeType::kBfloat16) {
    Library library;
    library.torch_version = "2.13.0";
    library.load_weights = LoadFakeWeights;
    library.make_step = MakeFakeStep;
    LoadOptions options;
    options.model.directory = tandem::testing::SourcePath("tests/model/goldens/" + variant_);
    options.mma_attention = mma_attention_;
    options.model.pool_tokens = pool_tokens_;
    options.model.dtype = dtype_;
    options.model.max_rows = max_rows_;
    options.device = device_;
    options.type = type;
    options.pass_kernels = LoadKernels;
    options.tile = tile;
    options.model.report = &report_;
    const base::ScopedLogSink sink(
        [this](const base::LogEntry& entry) { absl::StrAppend(&log_, entry.message, "\n"); });
    return Load(options, library);
  }
  static std::vector<std::string> SwitchedOff(model::LanguageModel& model) {
    return static_cast<TorchModel&>(model).switched_off();
  }

  int64_t pool_tokens_ = kWholePages * kPageTokens;
  model::Dtype dtype_ = model::Dtype::kAuto;
  int max_rows_ = 256;
  std::string variant_ = "gqa_odd";  // heads of 6 numbers
  bool mma_attention_ = false;
  std::string device_ = kCuda;
  model::LoadReport report_;
  std::string log_;
};

// On a processor the cache is in this process's memory.
TEST_F(LoadTest, APoolBeyondTheMemoryIsRefused) {
  device_ = kTorchCpu;
  pool_tokens_ = int64_t{1} << 32;
  const absl::Status status = LoadIt(/*tile=*/64, ComputeType::kFloat32).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("room for a cache of "));
  EXPECT_EQ(log_, "") << "nothing was computed";
}

TEST_F(LoadTest, LongerPassesThanTheSelfCheckComparesAreRefused) {
  for (const char* device : {kCuda, kTorchCpu}) {
    device_ = device;
    max_rows_ = kMostCheckedRows + 1;
    const absl::Status status = LoadIt().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("--max-rows=2049: LibTorch takes at most 2048 rows per pass"));
  }
}

// A row's logits are there twice, beside what the decoder holds of it.
TEST_F(LoadTest, MoreRowsTakeMoreMemory) {
  device_ = kTorchCpu;
  pool_tokens_ = int64_t{1} << 32;
  const auto activations = [this](int max_rows) {
    max_rows_ = max_rows;
    const std::string message(LoadIt(/*tile=*/64, ComputeType::kFloat32).status().message());
    const size_t at = message.find("activations ");
    EXPECT_NE(at, message.npos) << message;
    return std::stod(message.substr(at + std::string("activations ").size()));
  };
  const double few = activations(256);
  EXPECT_NEAR(activations(1024), 4 * few, 0.2);
  EXPECT_NEAR(activations(1025), 4.25 * few, 0.2) << "whole tiles count";
}

// What goes wrong in passes beyond those of 256 rows is found.
TEST_F(LoadTest, PassesOfAThousandRowsAreChecked) {
  max_rows_ = 1000;
  const auto model = LoadIt(/*tile=*/128);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->max_rows(), 1000);
  EXPECT_THAT(SwitchedOff(**model), IsEmpty());
  EXPECT_THAT(log_, HasSubstr("products_chosen device=cuda products=whole"));
  for (const char* path : {"spans-graphs", "spans"}) {
    faults[path] = [](const PassRows& pass, std::vector<float>& logits) {
      if (pass.rows.size() >= 500) logits.back() = std::nextafter(logits.back(), 1e9f);
    };
  }
  const auto checked = LoadIt(/*tile=*/128);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_THAT(SwitchedOff(**checked), ElementsAre("spans-graphs", "spans"));
  EXPECT_THAT(log_, HasSubstr("tiles: row "));
}

// Long contexts are computed without their graph, so its products are compared, too.
TEST_F(LoadTest, WholeProductsOutsideOfGraphsAreChecked) {
  for (const char* path : {"spans-graphs whole", "spans whole"}) {
    faults.clear();
    faults[path] = [](const PassRows&, std::vector<float>& logits) {
      logits.back() = std::nextafter(logits.back(), 1e9f);
    };
    log_.clear();
    const auto model = LoadIt();
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_THAT(SwitchedOff(**model), IsEmpty()) << path;
    EXPECT_THAT(log_, HasSubstr("products_chosen device=cuda products=tiles differs=")) << path;
  }
}

TEST_F(LoadTest, AProcessorsShortPassesStayInTiles) {
  device_ = kTorchCpu;
  ASSERT_TRUE(LoadIt(/*tile=*/32, ComputeType::kFloat32).ok());
  EXPECT_EQ(log_, "");
}

TEST_F(LoadTest, Int4IsRefused) {
  dtype_ = model::Dtype::kInt4;
  for (const char* device : {kCuda, kTorchCpu}) {
    device_ = device;
    const absl::Status status = LoadIt().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--dtype=int4 is for --device=cpu"));
  }
}

TEST_F(LoadTest, ASoundCardReplaysGraphs) {
  const auto model = LoadIt();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->info().numerics_id, "torch-2.13.0/fake-card/tile-64/bf16/spans-graphs");
  EXPECT_THAT(SwitchedOff(**model), IsEmpty());
  EXPECT_THAT(log_, Not(HasSubstr("switched_off")));
  std::vector<std::string> phases;
  double seconds = 0;
  for (const auto& [name, took] : report_.phases) {
    phases.push_back(name);
    seconds += took;
  }
  EXPECT_THAT(phases, ElementsAre("files", "tile", "self-check", "weights", "graphs", "hash"));
  EXPECT_LE(seconds, report_.seconds);
  EXPECT_THAT(report_.Text(), HasSubstr(" s (files "));
}

TEST_F(LoadTest, EachTypeHasItsWays) {
  for (const auto& [type, way] : {std::pair{ComputeType::kFloat32, "/fp32/spans-graphs"},
                                  std::pair{ComputeType::kFloat16, "/fp16/spans-graphs"}}) {
    const auto model = LoadIt(64, type);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_THAT((*model)->info().numerics_id, ::testing::EndsWith(way));
    EXPECT_THAT(SwitchedOff(**model), IsEmpty());
  }
}

// Where heads are whole loads, and keys have 16 bits; and behind the self-check.
TEST_F(LoadTest, TensorCoresAttendWhereSomebodyAsks) {
  const auto way = [this](ComputeType type = ComputeType::kBfloat16) {
    const auto model = LoadIt(64, type);
    EXPECT_TRUE(model.ok()) << model.status();
    const std::string id = (*model)->info().numerics_id;
    return id.substr(id.rfind('/') + 1);
  };
  variant_ = "llama3";
  EXPECT_EQ(way(), "spans-graphs");
  mma_attention_ = true;
  EXPECT_EQ(way(), "mma-graphs");
  faults["mma-graphs"] = SwapsHalves;
  EXPECT_EQ(way(), "mma");
  faults["mma"] = SwapsHalves;
  EXPECT_EQ(way(), "spans-graphs");
  EXPECT_THAT(log_, HasSubstr("path=mma failed="));
  faults.clear();
  EXPECT_THAT(LoadIt(64, ComputeType::kFloat32).status().message(),
              HasSubstr("--mma-attention is for bf16 and fp16"));
  variant_ = "gqa_odd";
  EXPECT_THAT(LoadIt().status().message(), HasSubstr("its heads have 6"));
}

TEST_F(LoadTest, KernelsThatFailOrDoNotLoadAreSwitchedOff) {
  for (bool load : {true, false}) {
    kernels_load = load;
    if (load) faults["spans"] = faults["spans-graphs"] = SwapsHalves;
    log_.clear();
    const auto model = LoadIt(64, ComputeType::kFloat32);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_THAT((*model)->info().numerics_id, ::testing::EndsWith("/gather"));
    EXPECT_THAT(SwitchedOff(**model), ElementsAre("spans-graphs", "spans"));
    EXPECT_THAT(log_, HasSubstr(load ? "path=spans failed=\"company: "
                                     : "path=spans failed=\"kernels: NVRTC is not there"));
  }
}

TEST_F(LoadTest, AGraphThatReplaysStaleInputIsSwitchedOff) {
  faults["spans-graphs"] = ReplaysStaleInput();
  const auto model = LoadIt();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->info().numerics_id, ::testing::EndsWith("/spans"));
  EXPECT_THAT(SwitchedOff(**model), ElementsAre("spans-graphs"));
  EXPECT_THAT(log_, AllOf(HasSubstr("device_path_switched_off device=cuda path=spans-graphs"),
                          HasSubstr("repeat: ")));
}

TEST_F(LoadTest, RowsThatArePermutedOrRoundedOtherwiseSwitchTheirWayOff) {
  faults["spans-graphs"] = SwapsHalves;
  faults["spans"] = IsHalfTooLarge;
  const auto model = LoadIt();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->info().numerics_id, ::testing::EndsWith("/gather"));
  EXPECT_THAT(SwitchedOff(**model), ElementsAre("spans-graphs", "spans"));
  EXPECT_THAT(log_, AllOf(HasSubstr("path=spans-graphs failed=\"company: "),
                          HasSubstr("path=spans failed=\"parity: ")));
}

// A graph that is not its pass, though it is right in itself.
TEST_F(LoadTest, AGraphOfOtherBitsThanItsPassIsSwitchedOff) {
  faults["spans-graphs"] = [](const PassRows&, std::vector<float>& logits) {
    for (float& logit : logits) logit *= 1.0001f;
  };
  const auto model = LoadIt();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(SwitchedOff(**model), ElementsAre("spans-graphs"));
  EXPECT_THAT(log_, HasSubstr("failed=\"eager: "));
}

TEST_F(LoadTest, WithoutCapturesPassesAreEager) {
  for (bool only_whole : {false, true}) {
    capture_fails = !only_whole;
    whole_capture_fails = only_whole;
    log_.clear();
    const auto model = LoadIt();
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_THAT((*model)->info().numerics_id, ::testing::EndsWith("/spans"));
    EXPECT_THAT(SwitchedOff(**model), ElementsAre("spans-graphs"));
    EXPECT_THAT(log_, HasSubstr("begin a capture"));
  }
}

// However many tiles are measured, and ways checked: the first layers once, and the whole model.
TEST_F(LoadTest, WeightsAreLoadedOnceForTheChecksAndOnceToServe) {
  whole_capture_fails = true;  // so the whole model is made twice
  ASSERT_TRUE(LoadIt(/*tile=*/0).ok());
  EXPECT_EQ(loads, 2);
  faults["spans"] = SwapsHalves;  // so graphs differ from it, and both are switched off
  loads = 0;
  const auto model = LoadIt(/*tile=*/0);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(SwitchedOff(**model), ElementsAre("spans-graphs", "spans"));
  EXPECT_EQ(loads, 2);
}

TEST_F(LoadTest, WithoutAWayThatPassesTheStartFails) {
  for (const char* path : {"spans-graphs", "spans", "gather"}) faults[path] = SwapsHalves;
  const auto model = LoadIt();
  EXPECT_TRUE(absl::IsFailedPrecondition(model.status())) << model.status();
  EXPECT_THAT(std::string(model.status().message()),
              AllOf(HasSubstr("spans-graphs: company:"), HasSubstr("spans: company:"),
                    HasSubstr("gather: company:")));
}

TEST_F(LoadTest, ATileIsMeasuredWhereNobodyGaveOne) {
  for (bool graphs : {true, false}) {  // that can be captured
    capture_fails = !graphs;
    log_.clear();
    const auto model = LoadIt(/*tile=*/0);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_THAT(log_, ::testing::ContainsRegex("tile_chosen tile=(64|128|192|256) us_by_tile=64:"));
    EXPECT_THAT((*model)->info().numerics_id, ::testing::ContainsRegex("/tile-(64|128|192|256)/"));
  }
}

}  // namespace
}  // namespace tandem::torch
