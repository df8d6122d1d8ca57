// Who gets the rows of the next pass: deficit round-robin (Shreedhar and Varghese, "Efficient Fair
// Queueing Using Deficit Round Robin", SIGCOMM 1995) on two levels, counted in rows. Groups
// (streams, clients) take turns, and within each group its members (sequences).
//
// At each turn a group may spend `quantum` rows more, and a member quantum × weight. What it does
// not spend because its next item is larger, it keeps for the next turn. So a group with 64 members
// gets no more rows than a group with one member that always has work. And a group that has little
// to do waits for nobody's backlog. A group or member that does not wait in a pass loses what it
// had: nothing is saved up by being idle.
//
//   FairShare share;
//   for (const FairShare::Grant& grant : share.Pick(waiting, 64)) … // waiting[grant.index]
//
// Deficits and turns persist from pass to pass. Pure logic: no model, no clock.
//
// Thread safety: none; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace tandem::scheduling {

class FairShare {
 public:
  // What one member waits with. It has at least one row.
  struct Item {
    uint64_t group = 0;
    uint64_t member = 0;  // within its group; at most one item of it waits
    int indivisible = 0;  // rows that go in one pass, with or after the last divisible one
    int divisible = 0;    // rows that may be cut anywhere; they go first
    int weight = 1;       // at least 1: shares of a member among the members of its group

    int total() const { return indivisible + divisible; }
  };

  struct Grant {
    size_t index = 0;  // into what waits
    int rows = 0;      // all rows of the item, or divisible ones only; at least 1
  };

  // `quantum`: at least 1. The smaller, the more evenly one pass is shared; a larger one cuts what
  // is divisible into larger pieces.
  explicit FairShare(int quantum = 1);

  // `waiting`: in the order of arrival. New items take their turns in this order, behind those that
  // waited before. Returns at most one grant an item, in the order of turns. Together they have at
  // most `rows` rows. But the first `sure_items` items go whole even where that takes more, as long
  // as all stays within max_rows. So at least one grant is made if anything waits, provided that
  // max_rows is as large as any indivisible part, and neither rows nor sure_items is 0.
  //
  // An item that does not fit is the first of the next pass. Smaller items of other groups may fill
  // the rest of this one. Take an item that is alone in its group, beside one other group, and no
  // larger than the others. If three items are sure, or `rows` is at least three times the largest
  // indivisible part, it gets into the very next pass, whatever the other group has waiting. If all
  // items are of one size, two are enough.
  std::vector<Grant> Pick(absl::Span<const Item> waiting, int rows, size_t sure_items = 1,
                          int max_rows = std::numeric_limits<int>::max());

 private:
  // A place in a ring of turns.
  struct Turn {
    int64_t deficit = 0;   // rows that may be taken now
    bool running = false;  // its quantum of this turn was added
    bool waits = false;    // in this pass
  };
  struct Member : Turn {
    size_t index = 0;
  };
  struct Group : Turn {
    absl::flat_hash_map<uint64_t, Member> members;
    std::deque<uint64_t> ring;  // ids of members; the first one's turn is next or running
    size_t left = 0;            // members with something left in this pass
    int min = 0;                // see MinPiece; 0: to be looked up
    bool full = false;          // its next piece does not fit into this pass
  };
  struct Pass;

  void Arrive(const Pass& pass);
  // The member whose turn it is, with enough to take its next piece.
  Member& NextMember(Group& group, const Pass& pass);
  static int WeightOf(const Member& member, const Pass& pass);
  int MinPiece(const Group& group, const Pass& pass) const;
  int NextPiece(const Member& member, const Pass& pass) const;
  bool TakeTurn(Group& group, Pass& pass);

  const int quantum_;
  absl::flat_hash_map<uint64_t, Group> groups_;
  std::deque<uint64_t> ring_;  // ids of groups; the first one's turn is next or running
};

}  // namespace tandem::scheduling
