// The self-check passes a sound device, and finds each fault that was planted in one. The devices
// here are the decoder of model/ with the fault around it.
#include "torch/self_check.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/load.h"
#include "tests/support/paths.h"
#include "torch/path_choice.h"

namespace tandem::torch {
namespace {

using model::ForwardPart;
using model::LanguageModel;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::unique_ptr<LanguageModel> Sound() {
  model::LoadOptions options;
  options.directory = tandem::testing::SourcePath("tests/model/goldens/gqa_odd");
  options.pool_tokens = 16 * 256;
  auto model = model::Load(options);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

// A pass of a device, as a fault sees it: the parts, and the logits that it may spoil.
using Fault = std::function<void(absl::Span<const ForwardPart> parts, std::vector<float>& logits)>;

class Faulty final : public LanguageModel {
 public:
  explicit Faulty(Fault fault) : sound_(Sound()), fault_(std::move(fault)) {}

  const model::ModelInfo& info() const override { return sound_->info(); }
  absl::StatusOr<std::unique_ptr<model::Cache>> NewCache(int max_length) override {
    return sound_->NewCache(max_length);
  }
  int max_rows() const override { return sound_->max_rows(); }
  int passes() const { return passes_; }
  absl::StatusOr<model::Logits> Forward(absl::Span<const ForwardPart> parts) override {
    ++passes_;
    auto logits = sound_->Forward(parts);
    if (!logits.ok()) return logits;
    logits_.assign(logits->data,
                   logits->data + static_cast<size_t>(logits->rows) * info().vocabulary_size);
    if (logits->rows > 0) fault_(parts, logits_);
    logits->data = logits_.data();
    return logits;
  }

 private:
  const std::unique_ptr<LanguageModel> sound_;
  const Fault fault_;
  std::vector<float> logits_;
  int passes_ = 0;
};

std::vector<CheckResult> Check(Fault fault, const CheckSize& size = {}) {
  Faulty device(std::move(fault));
  const auto reference = Sound();
  return CheckModel(device, *reference, 1e-4, size);
}

std::vector<std::string> Failed(const std::vector<CheckResult>& results) {
  std::vector<std::string> names;
  for (const CheckResult& result : results) {
    if (!result.status.ok()) names.push_back(result.name);
  }
  return names;
}

void NoFault(absl::Span<const ForwardPart>, std::vector<float>&) {}

// Every logit: other numbers of the same bits each time.
void RoundsOtherwise(absl::Span<const ForwardPart>, std::vector<float>& logits) {
  for (float& logit : logits) logit *= 1.01f;
}

// The last place of one logit, where there is company: a sum in another order.
void SeesCompany(absl::Span<const ForwardPart> parts, std::vector<float>& logits) {
  if (parts.size() > 1) logits[0] = std::nextafter(logits[0], 1e9f);
}

// The same in the pass's last row, if there are many: a kernel's remainder.
void SeesPlace(absl::Span<const ForwardPart>, std::vector<float>& logits) {
  if (logits.size() > 20 * 97) logits.back() = std::nextafter(logits.back(), 1e9f);
}

// A text that is read alone, in passes of this many rows.
Fault SeesLength(size_t rows) {
  return [rows](absl::Span<const ForwardPart> parts, std::vector<float>& logits) {
    if (parts.size() > 1 || parts[0].tokens.size() != rows) return;
    logits[5] = std::nextafter(logits[5], 1e9f);
  };
}

// Rows of a pass come back in another order.
void PermutesRows(absl::Span<const ForwardPart> parts, std::vector<float>& logits) {
  if (parts.size() < 2) return;
  const size_t row = logits.size() / 2;
  std::rotate(logits.begin(), logits.begin() + static_cast<ptrdiff_t>(row), logits.end());
}

// Rows whose sequence is longer than any text but the long one.
Fault LosesItsWayFarOn(float by) {
  return [by](absl::Span<const ForwardPart> parts, std::vector<float>& logits) {
    if (parts[0].cache->length() > 60) logits[0] += by;
  };
}

void BreaksTrees(absl::Span<const ForwardPart> parts, std::vector<float>& logits) {
  if (!parts[0].parents.empty()) logits[100] = std::nextafter(logits[100], 1e9f);
}

TEST(SelfCheckTest, ASoundDevicePasses) {
  const auto results = Check(NoFault);
  EXPECT_EQ(results.size(), 7u);
  EXPECT_THAT(Failed(results), IsEmpty()) << CheckTable(results, {});
  EXPECT_TRUE(FirstFailures(results).ok());
}

TEST(SelfCheckTest, EachPlantedFaultIsFound) {
  EXPECT_THAT(Failed(Check(RoundsOtherwise)), ElementsAre("parity", "long"));
  EXPECT_THAT(Failed(Check(SeesCompany)), ElementsAre("company", "order"));
  EXPECT_THAT(Failed(Check(SeesLength(17))), ElementsAre("cuts"));
  EXPECT_THAT(Failed(Check(SeesLength(40))), ElementsAre("cuts"));
  EXPECT_THAT(Failed(Check(PermutesRows)), ElementsAre("company", "order"));
  EXPECT_THAT(Failed(Check(BreaksTrees)), ElementsAre("trees"));
  EXPECT_THAT(Failed(Check(LosesItsWayFarOn(5))), ElementsAre("long"));
  EXPECT_THAT(Failed(Check(SeesPlace)), ::testing::Contains("company"));
}

// Whatever the number of rows that a device computes otherwise: a decode step, a verify pass, one
// of a remainder.
TEST(SelfCheckTest, EachLengthOfAPassIsCompared) {
  for (const size_t rows : {1, 3, 5, 7, 17, 40}) {
    EXPECT_THAT(Failed(Check(SeesLength(rows))), ::testing::Contains("cuts")) << rows;
  }
  for (const size_t rows : {1, 3, 6}) {
    EXPECT_THAT(Failed(Check(SeesLength(rows))), ::testing::Contains("long")) << rows;
  }
}

// A start waits for them, and with a large vocabulary each takes a third of a second on two cores.
TEST(SelfCheckTest, NoPassIsComputedTwice) {
  Faulty device(NoFault);
  Faulty reference(NoFault);
  EXPECT_THAT(Failed(CheckModel(device, reference)), IsEmpty());
  EXPECT_EQ(device.passes(), 42);
  EXPECT_EQ(reference.passes(), 4);
}

// What shows beyond the 40 rows and 300 cells of the quick checks alone.
TEST(SelfCheckTest, ACardIsCheckedOverSeveralTilesAndPartials) {
  const CheckSize card = CheckSizeOfCard(/*tile=*/64);
  const auto sound = Check(NoFault, card);
  EXPECT_EQ(sound.size(), 8u);
  EXPECT_THAT(Failed(sound), IsEmpty()) << CheckTable(sound, {});
  const auto row_of = [](size_t row, size_t least_rows) {
    return [=](absl::Span<const ForwardPart>, std::vector<float>& logits) {
      if (logits.size() < least_rows * 97) return;
      logits[row * 97 + 3] = std::nextafter(logits[row * 97 + 3], 1e9f);
    };
  };
  for (const auto& fault : {row_of(50, 64), row_of(64, 128), row_of(130, 192), row_of(0, 256)}) {
    EXPECT_THAT(Failed(Check(fault)), IsEmpty());
    EXPECT_THAT(Failed(Check(fault, card)), ElementsAre("tiles"));
    Faulty graphs(fault);
    EXPECT_THAT(std::string(CheckSameBits(graphs, *Sound(), card).message()),
                HasSubstr("other bits"));
  }
  EXPECT_EQ(card.long_text, 1000);
  const Fault far = LosesItsWayFarOn(5);
  EXPECT_THAT(Failed(Check(far, {.tile = 0, .long_text = 50})), IsEmpty());
  EXPECT_THAT(Failed(Check(far, {.tile = 0, .long_text = 70})), ElementsAre("long"));
}

// A graph that is replayed with the input of an earlier pass.
Fault StaleInput() {
  auto stale = std::make_shared<std::vector<float>>();
  return [stale](absl::Span<const ForwardPart> parts, std::vector<float>& logits) {
    if (parts[0].tokens.size() != 8) return;
    if (stale->size() == logits.size()) logits = *stale;
    *stale = logits;
  };
}

TEST(SelfCheckTest, StaleInputIsFound) {
  EXPECT_THAT(Failed(Check(StaleInput())), ElementsAre("repeat", "trees"));
}

TEST(SelfCheckTest, ADeviceThatFailsIsAResult) {
  class Broken final : public LanguageModel {
   public:
    const model::ModelInfo& info() const override { return info_; }
    absl::StatusOr<std::unique_ptr<model::Cache>> NewCache(int) override {
      return absl::InternalError("LibTorch failed");
    }
    absl::StatusOr<model::Logits> Forward(absl::Span<const ForwardPart>) override {
      return absl::InternalError("LibTorch failed");
    }
    int max_rows() const override { return 8; }

   private:
    model::ModelInfo info_{.vocabulary_size = 9};
  };
  Broken device;
  const auto reference = Sound();
  const auto results = CheckModel(device, *reference);
  EXPECT_EQ(Failed(results).size(), results.size());
  EXPECT_THAT(std::string(FirstFailures(results).message()), HasSubstr("parity: LibTorch failed"));
}

// What a graph may do that its pass does not, and the other checks would let pass.
TEST(SelfCheckTest, AGraphIsComparedWithItsPass) {
  const auto sound = Sound();
  Faulty same(NoFault);
  EXPECT_TRUE(CheckSameBits(same, *sound).ok());
  Faulty always([](absl::Span<const ForwardPart>, std::vector<float>& logits) {
    logits[7] = std::nextafter(logits[7], 1e9f);
  });
  EXPECT_THAT(std::string(CheckSameBits(always, *sound).message()), HasSubstr("other bits"));
}

// What fails is switched off for the next slower way: a device that permutes rows, one that rounds
// otherwise, a graph that replays stale input.
TEST(PathChoiceTest, TheFastestThatPasses) {
  const Path graphs = {Attention::kSpans, true}, spans = {Attention::kSpans}, gather;
  auto check = [&](Fault with_graphs, Fault with_spans, Fault with_gather) {
    return ChoosePath({graphs, spans, gather},
                      [&](const Path& path) -> absl::StatusOr<std::vector<CheckResult>> {
                        if (path == graphs) return Check(with_graphs);
                        return Check(path == spans ? with_spans : with_gather);
                      });
  };
  const auto all = check(NoFault, NoFault, NoFault);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->chosen.path, graphs);
  EXPECT_THAT(all->switched_off, IsEmpty());

  const auto eager = check(StaleInput(), NoFault, NoFault);
  ASSERT_TRUE(eager.ok()) << eager.status();
  EXPECT_EQ(eager->chosen.path, spans);
  ASSERT_EQ(eager->switched_off.size(), 1u);
  EXPECT_EQ(PathName(eager->switched_off[0].path), "spans-graphs");

  const auto slowest = check(PermutesRows, RoundsOtherwise, NoFault);
  ASSERT_TRUE(slowest.ok()) << slowest.status();
  EXPECT_EQ(slowest->chosen.path, gather);
  EXPECT_EQ(slowest->switched_off.size(), 2u);

  const auto none = check(StaleInput(), SeesCompany, RoundsOtherwise);
  EXPECT_TRUE(absl::IsFailedPrecondition(none.status()));
  EXPECT_THAT(std::string(none.status().message()),
              AllOf(HasSubstr("spans-graphs: repeat:"), HasSubstr("spans: company:"),
                    HasSubstr("gather: parity:")));
}

TEST(PathChoiceTest, ADeviceThatIsNotThereEndsTheChoice) {
  const auto choice = ChoosePath({Path{Attention::kSpans}, Path{}}, [](const Path&) {
    return absl::StatusOr<std::vector<CheckResult>>(absl::FailedPreconditionError("no card"));
  });
  EXPECT_EQ(choice.status(), absl::FailedPreconditionError("no card"));
}

TEST(MeasureCostTest, PassesOfMoreAndMoreRows) {
  const auto device = Sound();
  const auto cost = MeasureCost(*device);
  ASSERT_TRUE(cost.ok()) << cost.status();
  ASSERT_GE(cost->size(), 4u);
  EXPECT_EQ(cost->front().rows, 1);
  EXPECT_GT(cost->front().took, absl::ZeroDuration());
  EXPECT_THAT(CheckTable({{"parity", absl::OkStatus()}}, *cost),
              AllOf(HasSubstr("parity     passed"), HasSubstr("ms per pass")));
}

}  // namespace
}  // namespace tandem::torch
