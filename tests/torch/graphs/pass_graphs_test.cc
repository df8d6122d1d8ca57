// Graphs of passes against a device that records: shapes, padding and lifetimes over random
// programs, and each mistake that a graph may hide.
#include "torch/graphs/pass_graphs.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/torch/graphs/recording_device.h"

namespace tandem::torch {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A pass and the memory that it points into.
struct Program {
  std::vector<std::vector<uint32_t>> tables;  // of each part
  std::vector<const uint32_t*> pages;
  std::vector<Row> rows;
  std::vector<int> wanted;
  PassRows pass() const { return {rows, pages, wanted}; }
};

class RandomProgram {
 public:
  explicit RandomProgram(uint32_t seed) : random_(seed) {
    sizes_.tile = 2 << Below(3);
    sizes_.max_rows = 1 + Below(60);
    sizes_.max_pages = 1 + Below(3);
    sizes_.scratch_page = static_cast<uint32_t>(kSequences * sizes_.max_pages);
    // Pages in any order, each of one sequence.
    std::vector<uint32_t> pages(sizes_.scratch_page);
    std::iota(pages.begin(), pages.end(), 0u);
    std::shuffle(pages.begin(), pages.end(), random_);
    for (int i = 0; i < kSequences; ++i) {
      const auto first = pages.begin() + i * sizes_.max_pages;
      tables_.emplace_back(first, first + sizes_.max_pages);
    }
    cells_.resize(kSequences);
  }

  const InputSizes& sizes() const { return sizes_; }

  // Rows of some sequences, after what they hold or after a part of it. Now and then a sequence has
  // many tokens more, which are in its cells already.
  Program Next(RecordingDevice& device) {
    Program program;
    program.tables = tables_;
    int room = sizes_.max_rows;
    for (int i = 0; i < kSequences && room > 0; ++i) {
      program.pages.push_back(program.tables[static_cast<size_t>(i)].data());
      std::vector<uint32_t>& cells = cells_[static_cast<size_t>(i)];
      const int most = sizes_.max_pages * kPageTokens;
      if (Below(8) == 0) {
        while (static_cast<int>(cells.size()) < most / 2) Add(i, CellOf(7, 9), device);
      }
      cells.resize(cells.size() - static_cast<size_t>(Below(std::min<int>(3, cells.size()) + 1)));
      const int rows = std::min({room, Below(9), most - static_cast<int>(cells.size())});
      for (int row = 0; row < rows; ++row) {
        Row one;
        one.token = Below(1000);
        one.position = one.cell = static_cast<int64_t>(cells.size());
        one.part = i;
        one.visible = one.straight = static_cast<int>(cells.size()) + 1;
        cells.push_back(CellOf(one.token, one.position));
        if (Below(3) > 0) program.wanted.push_back(static_cast<int>(program.rows.size()));
        program.rows.push_back(one);
      }
      room -= rows;
    }
    if (Below(5) == 0) program.wanted.clear();
    return program;
  }

  // What a row sees, hashed.
  uint32_t Expected(const Row& row) const {
    uint32_t hash = 2166136261u;
    for (int at = 0; at < row.visible; ++at) {
      hash = HashOf(hash, cells_[static_cast<size_t>(row.part)][static_cast<size_t>(at)]);
    }
    return hash;
  }

  // Empty: each sequence's cells hold what they must.
  std::string CacheDifference(const std::vector<uint32_t>& cache) const {
    for (int i = 0; i < kSequences; ++i) {
      const std::vector<uint32_t>& cells = cells_[static_cast<size_t>(i)];
      for (size_t at = 0; at < cells.size(); ++at) {
        if (cache[Place(i, at)] != cells[at]) return absl::StrCat("cell ", at, " of ", i);
      }
    }
    return "";
  }

 private:
  static constexpr int kSequences = 4;

  int Below(int bound) { return static_cast<int>(random_() % static_cast<uint32_t>(bound)); }
  size_t Place(int sequence, size_t cell) const {
    return size_t{tables_[static_cast<size_t>(sequence)][cell / kPageTokens]} * kPageTokens +
           cell % kPageTokens;
  }
  void Add(int sequence, uint32_t value, RecordingDevice& device) {
    std::vector<uint32_t>& cells = cells_[static_cast<size_t>(sequence)];
    device.Then(
        [&device, value, place = Place(sequence, cells.size())] { device.cache[place] = value; });
    cells.push_back(value);
  }

  std::mt19937 random_;
  InputSizes sizes_;
  std::vector<std::vector<uint32_t>> tables_;  // the pages of each sequence
  std::vector<std::vector<uint32_t>> cells_;   // what each sequence holds
};

// All that went wrong in one program, results too. One pass or two are put on the stream before
// somebody waits; what reads their logits is put behind each.
std::vector<std::string> RunProgram(uint32_t seed, bool capture, GraphFault fault,
                                    int passes = 12) {
  RandomProgram random(seed);
  RecordingDevice device(random.sizes(), fault);
  PassGraphs graphs(device, random.sizes());
  absl::Status status = graphs.Prepare(capture);
  std::vector<std::string> wrong;
  for (int i = 0; i < passes && status.ok(); ++i) {
    const Program program = random.Next(device);
    if (program.rows.empty()) continue;
    // What a step that looks at the pass itself would see.
    device.longest_row = 0;
    for (const Row& row : program.rows) {
      device.longest_row = std::max(device.longest_row, row.visible);
    }
    AttentionLists lists;
    MakeAttentionLists(program.pass(), random.sizes(), lists);
    device.TakeLists(std::move(lists));
    status = graphs.Run(program.pass(), /*replays=*/true);
    std::vector<uint32_t> expected;
    for (int row : program.wanted) {
      expected.push_back(random.Expected(program.rows[static_cast<size_t>(row)]));
    }
    device.Then([&device, &wrong, expected] {
      if (!std::equal(expected.begin(), expected.end(), device.logits.begin())) {
        wrong.push_back("a result differs");
      }
    });
    if (i % 3 == 0) continue;
    EXPECT_TRUE(device.Synchronise().ok());
    const std::string difference = random.CacheDifference(device.cache);
    if (!difference.empty()) wrong.push_back(absl::StrCat("the cache differs: ", difference));
  }
  EXPECT_TRUE(device.Synchronise().ok());
  EXPECT_TRUE(status.ok()) << status;
  if (capture) {
    EXPECT_EQ(graphs.size(), AllShapes(random.sizes()).size());
    EXPECT_GT(device.replays, 0);
  } else {
    EXPECT_EQ(device.replays, 0);
  }
  wrong.insert(wrong.end(), device.violations.begin(), device.violations.end());
  return wrong;
}

TEST(PassGraphsTest, ReplaysComputeWhatPassesDo) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    for (bool capture : {true, false}) {
      EXPECT_THAT(RunProgram(seed, capture, GraphFault::kNone), IsEmpty()) << seed;
    }
  }
}

TEST(PassGraphsTest, PlantedFaultsAreFound) {
  const std::pair<GraphFault, const char*> faults[] = {
      {GraphFault::kMovedPointer, "attend: a pointer differs"},
      {GraphFault::kHostNumber, "attend: a number differs"},
      {GraphFault::kAllocates, "memory is taken in a capture"},
      {GraphFault::kGrows, "a pointer differs"},
      {GraphFault::kSynchronises, "the host waits in a capture"},
      {GraphFault::kStaleInput, "a result differs"},
      {GraphFault::kLateUpload, "a result differs"},
      {GraphFault::kPaddingWrites, "the cache differs"}};
  for (const auto& [fault, found] : faults) {
    std::vector<std::string> wrong;
    for (uint32_t seed = 0; seed < 4; ++seed) {
      const std::vector<std::string> some = RunProgram(seed, /*capture=*/true, fault);
      wrong.insert(wrong.end(), some.begin(), some.end());
    }
    EXPECT_THAT(wrong, Contains(HasSubstr(found)));
  }
}

TEST(PassShapeTest, WholeTilesOfRowsAndOfLogits) {
  InputSizes sizes;
  sizes.tile = 64;
  sizes.max_rows = 150;
  const std::vector<Row> rows(130);
  const std::vector<int> wanted(70);
  const auto shape = [&](size_t count, size_t logits) {
    return ShapeOf({absl::MakeSpan(rows).first(count), {}, absl::MakeSpan(wanted).first(logits)},
                   sizes);
  };
  EXPECT_EQ(shape(1, 0), (PassShape{64, 0}));
  EXPECT_EQ(shape(64, 1), (PassShape{64, 64}));
  EXPECT_EQ(shape(65, 64), (PassShape{128, 64}));
  EXPECT_EQ(shape(130, 65), (PassShape{192, 128}));
  EXPECT_THAT(AllShapes(sizes),
              ::testing::ElementsAre(PassShape{192, 192}, PassShape{192, 128}, PassShape{192, 64},
                                     PassShape{192, 0}, PassShape{128, 128}, PassShape{128, 64},
                                     PassShape{128, 0}, PassShape{64, 64}, PassShape{64, 0}));
}

// Twice as many rows take a few more sizes, and no more than a fifth of a pass fills it up.
TEST(PassShapeTest, SizesOfLongPassesAreFew) {
  using ::testing::ElementsAre;
  EXPECT_THAT(RowSizes(64, 1), ElementsAre(64));
  EXPECT_THAT(RowSizes(64, 256), ElementsAre(64, 128, 192, 256));
  EXPECT_THAT(RowSizes(64, 1000),
              ElementsAre(64, 128, 192, 256, 320, 384, 448, 512, 640, 768, 896, 1024));
  EXPECT_THAT(RowSizes(64, 1025), ::testing::Contains(1024));
  EXPECT_EQ(RowSizes(64, 1025).back(), 1088);
  for (const int tile : {32, 64, 192}) {
    const std::vector<int> sizes = RowSizes(tile, 2048);
    for (size_t i = 1; i < sizes.size(); ++i) {
      EXPECT_EQ(sizes[i] % tile, 0);
      EXPECT_LE(sizes[i] - sizes[i - 1], std::max(tile, sizes[i] / 5)) << sizes[i];
    }
  }
  const InputSizes sizes{.tile = 64, .max_rows = 1024};
  EXPECT_LE(AllShapes(sizes).size(), 4 * AllShapes({.tile = 64, .max_rows = 256}).size());
  const std::vector<Row> rows(600);
  const std::vector<int> wanted(600);
  for (const auto& [logits, size] :
       {std::pair{0, 0}, {1, 64}, {65, 256}, {256, 256}, {257, 640}, {600, 640}}) {
    const PassShape shape =
        ShapeOf({rows, {}, absl::MakeSpan(wanted).first(static_cast<size_t>(logits))}, sizes);
    EXPECT_EQ(shape, (PassShape{640, size})) << logits;
    EXPECT_THAT(AllShapes(sizes), Contains(shape));
  }
}

// A device that refuses the capture says so, and has left it.
TEST(PassGraphsTest, ACaptureThatFailsEnds) {
  class Refusing final : public GraphBackend {
   public:
    absl::StatusOr<char*> Allocate(size_t) override { return &input_; }
    absl::Status Upload(const char*, char*, size_t) override { return absl::OkStatus(); }
    absl::Status Compute(const PassShape&, const char*) override {
      return capturing ? absl::InternalError("not while capturing") : absl::OkStatus();
    }
    absl::Status Synchronise() override { return absl::OkStatus(); }
    absl::Status BeginCapture() override {
      capturing = true;
      return absl::OkStatus();
    }
    absl::StatusOr<int> EndCapture() override {
      capturing = false;
      return 0;
    }
    absl::Status Replay(int) override { return absl::InternalError("nothing was captured"); }

    bool capturing = false;

   private:
    char input_ = 0;
  };
  Refusing device;
  PassGraphs graphs(device, {.tile = 32, .max_rows = 32, .max_pages = 1, .scratch_page = 1});
  EXPECT_EQ(graphs.Prepare(true), absl::InternalError("not while capturing"));
  EXPECT_FALSE(device.capturing);
  EXPECT_EQ(graphs.size(), 0u);
}

}  // namespace
}  // namespace tandem::torch
