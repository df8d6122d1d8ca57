// Names that are looked up again and again, with a name server and a clock of the test's own.
#include "orchestrator/peers/directory.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_clock.h"
#include "tests/support/log_lines.h"
#include "tests/support/wait.h"

namespace tandem::orchestrator {
namespace {

using ::tandem::testing::WaitUntil;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Thread-safe. Shared with lookups that outlive a directory.
class NameServer {
 public:
  void Set(const std::string& host, std::vector<std::string> addresses) {
    concurrency::MutexLock lock(mutex_);
    hosts_[host] = std::move(addresses);
  }
  // Empty: it answers again.
  void Fail(const std::string& problem) {
    concurrency::MutexLock lock(mutex_);
    problem_ = problem;
  }
  // Lookups do not return until it is false again.
  void Hang(bool hangs) {
    concurrency::MutexLock lock(mutex_);
    hangs_ = hangs;
    changed_.NotifyAll();
  }
  int asked() const {
    concurrency::MutexLock lock(mutex_);
    return asked_;
  }
  int under_way() const {
    concurrency::MutexLock lock(mutex_);
    return under_way_;
  }

  absl::StatusOr<std::vector<std::string>> Answer(const std::string& host) {
    concurrency::MutexLock lock(mutex_);
    ++asked_;
    ++under_way_;
    while (hangs_) changed_.Wait(mutex_);
    --under_way_;
    if (!problem_.empty()) return absl::UnavailableError(problem_);
    auto it = hosts_.find(host);
    if (it == hosts_.end()) return absl::NotFoundError("no host " + host);
    return it->second;
  }

 private:
  mutable concurrency::Mutex mutex_;
  concurrency::CondVar changed_;
  std::map<std::string, std::vector<std::string>> hosts_ TANDEM_GUARDED_BY(mutex_);
  std::string problem_ TANDEM_GUARDED_BY(mutex_);
  bool hangs_ TANDEM_GUARDED_BY(mutex_) = false;
  int asked_ TANDEM_GUARDED_BY(mutex_) = 0;
  int under_way_ TANDEM_GUARDED_BY(mutex_) = 0;
};

class DirectoryTest : public ::testing::Test {
 protected:
  // `slow`: answers for the host of that name.
  void Open(const std::string& names, std::shared_ptr<NameServer> slow = nullptr) {
    DirectoryOptions options;
    options.kind = "draft";
    options.names = *base::ParseAddressList("draft", names);
    options.look_up = [server = server_, slow](const std::string& host) {
      return host == "slow" ? slow->Answer(host) : server->Answer(host);
    };
    directory_ = std::make_unique<Directory>(std::move(options), timers_, [this](PeerList list) {
      concurrency::MutexLock lock(mutex_);
      lists_.push_back(std::move(list));
    });
  }
  size_t calls() {
    concurrency::MutexLock lock(mutex_);
    return lists_.size();
  }
  PeerList last() {
    concurrency::MutexLock lock(mutex_);
    return lists_.empty() ? PeerList() : lists_.back();
  }
  std::vector<std::string> addresses() {
    std::vector<std::string> texts;
    for (const PeerAddress& peer : last().peers) texts.push_back(peer.address);
    return texts;
  }
  // The call after the constructor's own and those of `rounds` lookups; all names wait then.
  void AwaitRounds(size_t rounds, size_t names = 1) {
    ASSERT_TRUE(WaitUntil([&] { return calls() >= 1 + rounds && timers_.waiting() == names; }))
        << calls();
  }
  void Round() {
    const size_t before = calls();
    timers_.AdvanceToNext();
    ASSERT_TRUE(WaitUntil([&] { return calls() > before && timers_.waiting() > 0; }));
  }

  testing::LogRecorder log_;
  testing::FakeClock clock_;
  testing::FakeTimers timers_{clock_};
  std::shared_ptr<NameServer> server_ = std::make_shared<NameServer>();
  concurrency::Mutex mutex_;
  std::vector<PeerList> lists_ TANDEM_GUARDED_BY(mutex_);
  std::unique_ptr<Directory> directory_;
};

TEST_F(DirectoryTest, AddressesAreThereAtOnceAndNeverLookedUp) {
  Open("10.0.0.7:50051,[::0001]:7,[fe80::1%eth0]:8");
  ASSERT_EQ(calls(), 1u);
  EXPECT_THAT(addresses(), ElementsAre("10.0.0.7:50051", "[::1]:7", "[fe80::1%eth0]:8"));
  EXPECT_EQ(last().peers[1].name, "[::1]:7");
  EXPECT_THAT(last().problems, IsEmpty());
  EXPECT_EQ(timers_.waiting(), 0u);
  directory_.reset();
  EXPECT_EQ(server_->asked(), 0);
  EXPECT_THAT(log_.Texts(), IsEmpty());
}

TEST_F(DirectoryTest, InTheFlagsOrderThenByAddressEachOnce) {
  server_->Set("b", {"10.0.0.10", "10.0.0.9", "::1", "10.0.0.9"});
  server_->Set("a", {"fd00::b", "fd00::a"});
  server_->Hang(true);
  Open("b:5,10.0.0.1:5,10.0.0.9:5,a:6,b:6");
  EXPECT_THAT(addresses(), ElementsAre("10.0.0.1:5", "10.0.0.9:5")) << "before any lookup";
  EXPECT_THAT(last().problems,
              ElementsAre("draft b:5 is being looked up", "draft a:6 is being looked up",
                          "draft b:6 is being looked up"));
  server_->Hang(false);
  AwaitRounds(3, 3);
  EXPECT_THAT(addresses(), ElementsAre("10.0.0.9:5", "10.0.0.10:5", "10.0.0.1:5", "[fd00::a]:6",
                                       "[fd00::b]:6", "10.0.0.9:6", "10.0.0.10:6"));
  EXPECT_EQ(last().peers[0].name, "b:5") << "of the first entry that has it";
  EXPECT_EQ(last().peers[2].name, "10.0.0.1:5");
  EXPECT_EQ(last().peers[3].name, "a:6");
  EXPECT_THAT(last().problems, IsEmpty());
}

TEST_F(DirectoryTest, WhatComesAndGoesIsToldAndLoggedOnEachChange) {
  server_->Set("drafts", {"10.0.0.1"});
  Open("drafts:5");
  AwaitRounds(1);
  EXPECT_THAT(addresses(), ElementsAre("10.0.0.1:5"));
  Round();
  EXPECT_EQ(calls(), 3u) << "told though nothing changed: leaving peers are swept then";
  server_->Set("drafts", {"10.0.0.2", "10.0.0.1"});
  Round();
  EXPECT_THAT(addresses(), ElementsAre("10.0.0.1:5", "10.0.0.2:5"));
  server_->Set("drafts", {"10.0.0.2"});
  Round();
  EXPECT_THAT(addresses(), ElementsAre("10.0.0.2:5"));
  EXPECT_THAT(log_.Texts(),
              ElementsAre("name_resolved name=drafts:5 kind=draft addresses=10.0.0.1:5",
                          "name_resolved name=drafts:5 kind=draft addresses=10.0.0.1:5,10.0.0.2:5",
                          "name_resolved name=drafts:5 kind=draft addresses=10.0.0.2:5"));
}

TEST_F(DirectoryTest, ANameHasABoundOfAddressesAndKeepsThoseItHas) {
  std::vector<std::string> many;
  for (int i = 0; i < 4000; ++i) many.push_back(absl::StrCat("10.0.", 99 - i / 250, ".", i % 250));
  server_->Set("drafts", {"10.0.99.249", "10.0.99.248"});
  Open("drafts:5");
  AwaitRounds(1);
  server_->Set("drafts", many);
  Round();
  const std::vector<std::string> chosen = addresses();
  EXPECT_EQ(chosen.size(), kMaxAddressesOfName);
  EXPECT_EQ(chosen.front(), "10.0.84.0:5");
  EXPECT_EQ(chosen.back(), "10.0.99.249:5") << "known before";
  EXPECT_THAT(log_.Texts().back(), ::testing::EndsWith(" left_out=3744 max_addresses=256"));
  // Addresses that come before those in use displace none of them.
  many.push_back("10.0.1.1");
  std::reverse(many.begin(), many.end());
  server_->Set("drafts", many);
  Round();
  EXPECT_EQ(addresses(), chosen);
  EXPECT_EQ(log_.Of("name_resolved").size(), 2u) << "once a change";
  many.resize(kMaxAddressesOfName);
  server_->Set("drafts", many);
  Round();
  EXPECT_EQ(addresses().size(), kMaxAddressesOfName);
  EXPECT_THAT(log_.Texts().back(), ::testing::Not(::testing::HasSubstr("left_out")));
}

TEST_F(DirectoryTest, AFailedLookupChangesNothing) {
  server_->Set("drafts", {"10.0.0.1"});
  Open("drafts:5");
  AwaitRounds(1);
  server_->Fail("cannot look up drafts: silence");
  Round();
  Round();
  EXPECT_THAT(addresses(), ElementsAre("10.0.0.1:5"));
  EXPECT_THAT(last().problems, IsEmpty()) << "it has resolved";
  server_->Fail("");
  server_->Set("drafts", {});
  Round();
  EXPECT_THAT(addresses(), ElementsAre("10.0.0.1:5"));
  server_->Set("drafts", {"10.0.0.1"});
  Round();
  EXPECT_THAT(
      log_.Texts(),
      ElementsAre("name_resolved name=drafts:5 kind=draft addresses=10.0.0.1:5",
                  "name_lost name=drafts:5 kind=draft reason=\"cannot look up drafts: silence\"",
                  "name_lost name=drafts:5 kind=draft reason=\"drafts has no address\"",
                  "name_resolved name=drafts:5 kind=draft addresses=10.0.0.1:5"))
      << "once a change";
}

TEST_F(DirectoryTest, ANameThatNeverResolvedIsAProblemAndAskedForSooner) {
  Open("drafts:5,10.0.0.1:5");
  AwaitRounds(1);
  EXPECT_THAT(last().problems, ElementsAre("draft drafts:5: no host drafts"));
  EXPECT_THAT(addresses(), ElementsAre("10.0.0.1:5"));
  absl::Duration before = absl::ZeroDuration();
  for (int i = 0; i < 8; ++i) {
    const absl::Duration delay = timers_.next_due() - clock_.Now();
    EXPECT_LE(delay, i == 0 ? absl::Milliseconds(600) : absl::Seconds(6));
    EXPECT_GE(delay, before / 2);
    before = delay;
    Round();
  }
  EXPECT_GE(before, absl::Seconds(4)) << "not for ever";
  server_->Set("drafts", {"10.0.0.2"});
  Round();
  EXPECT_THAT(addresses(), ElementsAre("10.0.0.2:5", "10.0.0.1:5"));
  EXPECT_THAT(last().problems, IsEmpty());
  EXPECT_EQ(log_.Of("name_lost").size(), 1u);
}

TEST_F(DirectoryTest, RoundsAreApartByAboutTheirTime) {
  server_->Set("drafts", {"10.0.0.1"});
  Open("drafts:5");
  AwaitRounds(1);
  absl::Duration min = absl::InfiniteDuration();
  absl::Duration max;
  for (int i = 0; i < 50; ++i) {
    const absl::Duration delay = timers_.next_due() - clock_.Now();
    min = std::min(min, delay);
    max = std::max(max, delay);
    Round();
  }
  EXPECT_GE(min, absl::Milliseconds(4500));
  EXPECT_LT(min, absl::Milliseconds(4800));
  EXPECT_GT(max, absl::Milliseconds(5200));
  EXPECT_LE(max, absl::Milliseconds(5500));
}

TEST_F(DirectoryTest, OneSlowNameDelaysNoOther) {
  server_->Set("drafts", {"10.0.0.1"});
  auto slow = std::make_shared<NameServer>();
  slow->Hang(true);
  slow->Set("slow", {"10.0.0.9"});
  Open("slow:5,drafts:5", slow);
  AwaitRounds(1);
  Round();
  EXPECT_THAT(addresses(), ElementsAre("10.0.0.1:5"));
  EXPECT_THAT(last().problems, ElementsAre("draft slow:5 is being looked up"));
  slow->Hang(false);
  ASSERT_TRUE(WaitUntil([&] { return addresses().size() == 2; }));
  EXPECT_THAT(addresses(), ElementsAre("10.0.0.9:5", "10.0.0.1:5"));
}

TEST_F(DirectoryTest, TheEndWaitsForNoLookupAndNoCallComesAfterIt) {
  server_->Hang(true);
  Open("a:5,b:5,10.0.0.1:5");
  ASSERT_TRUE(WaitUntil([&] { return server_->under_way() == 2; }));
  directory_.reset();  // would hang for ever
  EXPECT_EQ(server_->under_way(), 2);
  const size_t before = calls();
  server_->Set("a", {"10.0.0.1"});
  server_->Hang(false);
  // The threads let go of the server's last references when they end.
  ASSERT_TRUE(WaitUntil([&] { return server_.use_count() == 1; }));
  EXPECT_EQ(calls(), before);
  EXPECT_EQ(timers_.waiting(), 0u);
  EXPECT_THAT(log_.Texts(), IsEmpty());
}

TEST_F(DirectoryTest, WhatTheListenerHoldsIsFreeAfterTheEnd) {
  server_->Hang(true);
  auto held = std::make_shared<int>(0);
  DirectoryOptions options;
  options.kind = "draft";
  options.names = *base::ParseAddressList("draft", "a:5");
  options.look_up = [server = server_](const std::string& host) { return server->Answer(host); };
  directory_ = std::make_unique<Directory>(std::move(options), timers_,
                                           [held](const PeerList&) { ++*held; });
  ASSERT_TRUE(WaitUntil([&] { return server_->under_way() == 1; }));
  directory_.reset();
  EXPECT_EQ(held.use_count(), 1);
  server_->Hang(false);
  ASSERT_TRUE(WaitUntil([&] { return server_.use_count() == 1; }));
}

// Many directories that end at any moment while names change, timers fire and lookups are slow.
TEST_F(DirectoryTest, EndsAtAnyMomentUnderLoad) {
  for (int i = 0; i < 200; ++i) {
    server_->Set("a", {"10.0.0." + std::to_string(i % 250)});
    server_->Set("b", {"10.0.1.1", "10.0.0." + std::to_string((i + 1) % 250)});
    Open("a:5,b:5,c:5,10.0.0.1:5");
    for (int advances = 0; advances < i % 7; ++advances) {
      timers_.Advance(absl::Seconds(3));
      server_->Hang(advances % 2 == 0);
    }
    directory_.reset();
    const size_t after = calls();
    server_->Hang(false);
    timers_.Advance(absl::Seconds(10));
    EXPECT_EQ(calls(), after);
  }
  ASSERT_TRUE(WaitUntil([&] { return server_.use_count() == 1; }));
}

}  // namespace
}  // namespace tandem::orchestrator
