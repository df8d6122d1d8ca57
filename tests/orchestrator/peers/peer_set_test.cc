#include "orchestrator/peers/peer_set.h"

#include <memory>
#include <string>
#include <vector>

#include "common/concurrency/instant.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/log_lines.h"

namespace tandem::orchestrator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Client {
  uint32_t sequences() const { return running; }
  v1::Peer Describe() const {
    v1::Peer peer;
    peer.set_address(name);
    return peer;
  }
  std::string name;
  uint32_t running = 0;
};

struct Health {
  bool Ejected(concurrency::Instant now) const { return now < until; }
  uint64_t ejections() const { return member_id; }
  uint64_t member_id = 0;
  concurrency::Instant until;
};

struct World {
  using Set = PeerSet<Client, Health, int>;

  // Takes up a list; "broken" are those whose clients cannot return.
  void Take(const std::string& names, const std::string& broken = "") {
    PeerList list;
    for (char name : names) list.peers.push_back({std::string(1, name), std::string(1, name)});
    news = set.Compare(
        list, [&](Client& client) { return broken.find(client.name) == std::string::npos; });
    std::vector<std::shared_ptr<Client>> made;
    for (const PeerAddress& peer : news.fresh) {
      made.push_back(std::make_shared<Client>(Client{peer.address}));
    }
    left_now.clear();
    some_leave = set.Arrange(list, news.fresh, made,
                             [this](Client& client) { left_now.push_back(client.name); });
  }
  std::string Names(bool leaving) const {
    std::string names;
    for (const Set::Member& member : set) {
      if (member.leaving == leaving) names += member.peer.address;
    }
    return names;
  }
  Client& At(const std::string& name) {
    for (Set::Member& member : set) {
      if (member.peer.address == name) return *member.client;
    }
    ADD_FAILURE() << name;
    return *set.begin()->client;
  }
  std::vector<std::string> Forgotten() {
    std::vector<std::string> names;
    for (const Set::Member& member : set.TakeLeft()) names.push_back(member.peer.address);
    return names;
  }

  Set set{"target", [](const std::shared_ptr<Client>&, uint64_t member_id) {
            return Health{member_id, {}};
          }};
  Set::News news;
  bool some_leave = false;
  std::vector<std::string> left_now;
};

TEST(PeerSet, FollowsTheListsOrderAndThoseThatLeaveComeLast) {
  World world;
  world.Take("abc");
  EXPECT_EQ(world.Names(false), "abc");
  EXPECT_EQ(world.news.fresh.size(), 3u);
  EXPECT_FALSE(world.some_leave);
  world.Take("cda");
  EXPECT_EQ(world.Names(false), "cda");
  EXPECT_EQ(world.Names(true), "b");
  EXPECT_EQ(world.news.fresh.size(), 1u) << "the others keep their clients";
  EXPECT_TRUE(world.some_leave);
  EXPECT_THAT(world.left_now, ElementsAre("b"));
  world.Take("cda");
  EXPECT_FALSE(world.some_leave) << "it leaves already";
  EXPECT_THAT(world.left_now, IsEmpty());
}

TEST(PeerSet, OneThatLeavesIsForgottenOnceNothingRunsThere) {
  World world;
  world.Take("ab");
  world.At("a").running = 1;
  world.Take("");
  EXPECT_THAT(world.Forgotten(), ElementsAre("b"));
  EXPECT_EQ(world.Names(true), "a");
  world.At("a").running = 0;
  EXPECT_THAT(world.Forgotten(), ElementsAre("a"));
  world.Take("b");
  EXPECT_EQ(world.news.fresh.size(), 1u) << "it was forgotten";
  EXPECT_THAT(world.Forgotten(), IsEmpty()) << "it does not leave";
}

TEST(PeerSet, OneThatReturnsKeepsItsClientUnlessThatIsOfNoUse) {
  World world;
  world.Take("ab");
  world.At("a").running = world.At("b").running = 1;
  const Client* a = &world.At("a");
  const Client* b = &world.At("b");
  world.Take("");
  world.Take("ab", "b");
  EXPECT_TRUE(world.news.returned);
  EXPECT_EQ(world.Names(false), "ab");
  EXPECT_EQ(&world.At("a"), a);
  EXPECT_NE(&world.At("b"), b);
  ASSERT_EQ(world.news.replaced.size(), 1u);
  EXPECT_EQ(world.news.replaced[0].get(), b) << "for its owner to end";
  world.Take("ab");
  EXPECT_FALSE(world.news.returned) << "nobody was leaving";
}

TEST(PeerSet, NumbersAreNeverGivenTwiceAndNotesStayWithTheirPeer) {
  World world;
  world.Take("ab");
  for (World::Set::Member& member : world.set) member.notes = static_cast<int>(10 * member.id);
  world.Take("b");
  EXPECT_THAT(world.Forgotten(), ElementsAre("a"));
  world.Take("ab");
  std::vector<uint64_t> ids;
  std::vector<int> notes;
  std::vector<uint64_t> ejections;
  for (const World::Set::Member& member : world.set) {
    ids.push_back(member.id);
    notes.push_back(member.notes);
  }
  EXPECT_THAT(ids, ElementsAre(3, 2));
  EXPECT_THAT(notes, ElementsAre(0, 20));
}

TEST(PeerSet, DescribesWhoLeavesAndWhoIsEjected) {
  World world;
  world.Take("ab");
  world.set.begin()->health.until = concurrency::Instant(absl::Seconds(10));
  world.Take("b");
  const std::vector<v1::Peer> peers = world.set.Describe(concurrency::Instant(absl::Seconds(9)));
  ASSERT_EQ(peers.size(), 2u);
  EXPECT_EQ(peers[0].address(), "b");
  EXPECT_FALSE(peers[0].leaving());
  EXPECT_FALSE(peers[0].ejected());
  EXPECT_EQ(peers[0].ejections(), 2u);
  EXPECT_EQ(peers[1].address(), "a");
  EXPECT_TRUE(peers[1].leaving());
  EXPECT_TRUE(peers[1].ejected());
  EXPECT_FALSE(world.set.Describe(concurrency::Instant(absl::Seconds(10)))[1].ejected());
}

TEST(PeerSet, SaysInTheLogWhoComesAndGoes) {
  ::tandem::testing::LogRecorder log;
  World world;
  world.Take("a");
  world.At("a").running = 2;
  world.Take("");
  world.Take("a");
  world.At("a").running = 0;
  world.Take("");
  world.Forgotten();
  std::vector<std::string> texts;
  for (const auto& line : log.Lines()) texts.push_back(line.text);
  EXPECT_THAT(
      texts,
      ElementsAre("peer_found peer=a kind=target", "peer_leaving peer=a kind=target sequences=2",
                  "peer_returned peer=a kind=target", "peer_leaving peer=a kind=target sequences=0",
                  "peer_left peer=a kind=target"));
}

}  // namespace
}  // namespace tandem::orchestrator
