// A session whose stream is lost comes back to its target under the number that its sequence had:
// what lingers there is found by it.
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/harness/pool_harness.h"
#include "tests/orchestrator/verify/pool_texts.h"

namespace tandem::orchestrator {
namespace {

using ::testing::SizeIs;
using Do = WireTarget::Do;

// The numbers of the sequences that began on each stream, by the first token of their prompts.
class Begun {
 public:
  explicit Begun(WireTarget& target) {
    target.on_step = [this, &target](const internal::v1::Step& step,
                                     internal::v1::Verdict& verdict) {
      if (step.prefix().keep() == 0) {
        numbers_[{target.streams, step.prefix().tokens(0)}].push_back(step.sequence());
      }
      return then ? then(step, verdict) : Do::kAnswer;
    };
  }

  std::vector<uint64_t> On(int stream, uint32_t first_token) const {
    auto it = numbers_.find({stream, first_token});
    return it == numbers_.end() ? std::vector<uint64_t>() : it->second;
  }

  std::function<Do(const internal::v1::Step&, internal::v1::Verdict&)> then;

 private:
  std::map<std::pair<int, uint32_t>, std::vector<uint64_t>> numbers_;
};

TEST(LostStream, EachSequenceKeepsItsNumber) {
  PoolHarness harness(1);
  Begun begun(harness.target(0));
  // Some have ended before, so that a count that begins anew gives other numbers.
  harness.Add(Text(6, 3));
  harness.Add(Text(7, 3));
  harness.Run();
  std::vector<PoolHarness::Request*> requests;
  for (uint32_t i = 1; i <= 4; ++i) requests.push_back(&harness.Add(Text(i, 60)));
  for (int cut = 1; cut <= 2; ++cut) {
    harness.Run([&] { return requests[3]->output().size() >= 10u * static_cast<size_t>(cut); });
    harness.target(0).Cut();
    harness.DeliverAll();
  }
  harness.Run();
  ASSERT_EQ(harness.target(0).streams, 3);
  std::set<uint64_t> all;
  for (uint32_t i = 1; i <= 4; ++i) {
    ExpectRight(*requests[i - 1]);
    const std::vector<uint64_t> first = begun.On(1, i);
    ASSERT_THAT(first, SizeIs(1));
    EXPECT_EQ(begun.On(2, i), first);
    EXPECT_EQ(begun.On(3, i), first);
    all.insert(first[0]);
  }
  EXPECT_THAT(all, SizeIs(4)) << "no two share a number";
}

// On one stream a number that was used names the old sequence alone.
TEST(LostStream, AFaultGivesAnotherNumber) {
  PoolHarness harness(1);
  Begun begun(harness.target(0));
  auto& request = harness.Add(Text(1));
  bool failed = false;
  begun.then = [&](const internal::v1::Step& step, internal::v1::Verdict& verdict) {
    if (failed || step.round() < 5) return Do::kAnswer;
    failed = true;
    verdict.clear_entries();
    verdict.set_status(internal::v1::STATUS_INTERNAL);
    return Do::kAnswer;
  };
  harness.Run();
  ExpectRight(request);
  const std::vector<uint64_t> numbers = begun.On(1, 1);
  ASSERT_THAT(numbers, SizeIs(2));
  EXPECT_NE(numbers[0], numbers[1]);
}

// A silent stream is lost like a broken one.
TEST(LostStream, ASilentStreamThatWasGivenUpKeepsTheNumber) {
  PoolHarness harness(1);
  Begun begun(harness.target(0));
  auto& request = harness.Add(Text(1));
  begun.then = [&](const internal::v1::Step&, internal::v1::Verdict&) {
    return harness.target(0).steps == 5 ? Do::kDrop : Do::kAnswer;
  };
  harness.Run();
  ExpectRight(request);
  ASSERT_THAT(begun.On(1, 1), SizeIs(1));
  EXPECT_EQ(begun.On(2, 1), begun.On(1, 1));
}

// Two orchestrator processes of one client id, one after the other: the numbers of the second are
// not those of sequences that linger of the first.
TEST(LostStream, AnotherPoolHasOtherNumbers) {
  std::set<uint64_t> numbers;
  for (int pool = 0; pool < 2; ++pool) {
    PoolHarness harness(1);
    Begun begun(harness.target(0));
    harness.Add(Text(1, 3));
    harness.Run();
    ASSERT_THAT(begun.On(1, 1), SizeIs(1));
    numbers.insert(begun.On(1, 1)[0]);
  }
  EXPECT_THAT(numbers, SizeIs(2));
}

}  // namespace
}  // namespace tandem::orchestrator
