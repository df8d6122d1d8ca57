// A device for graphs that keeps what each launch reads and writes, and what numbers the host gave
// it. A replay is compared with what the same pass would launch now: a pointer, a number or an
// amount of memory that differs is a violation, because a graph has the old one. So are what a
// capture must not do, and a capture without a pass before it.
//
// As on a card, uploads, passes and replays are put on a stream, and nothing of them runs until
// somebody waits. So memory that is read later than it may change shows, too.
//
// What it computes is not a decoder: a cell holds a hash of a token and its position, and a row's
// result is a hash of the cells that it sees.
//
// Thread safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "torch/graphs/attention_lists.h"
#include "torch/graphs/graph_backend.h"

namespace tandem::torch {

inline uint32_t HashOf(uint32_t hash, uint32_t value) { return (hash ^ (value + 1)) * 16777619u; }
inline uint32_t CellOf(int64_t token, int64_t position) {
  return HashOf(HashOf(2166136261u, static_cast<uint32_t>(token)), static_cast<uint32_t>(position));
}

// Mistakes that tests make on purpose.
enum class GraphFault {
  kNone,
  kMovedPointer,   // results go to memory that is taken anew for every pass
  kHostNumber,     // the longest row of the pass is a number of the host
  kAllocates,      // memory is taken in the capture
  kGrows,          // a pass takes as much scratch memory as its longest row needs
  kSynchronises,   // the host waits in the capture
  kStaleInput,     // the first token of an upload after the captures does not arrive
  kLateUpload,     // the first token is read from the host's memory when the stream comes to it
  kPaddingWrites,  // rows that fill up write into cells of their own numbers
};

class RecordingDevice final : public GraphBackend {
 public:
  RecordingDevice(const InputSizes& sizes, GraphFault fault)
      : sizes_(sizes),
        fault_(fault),
        cache((sizes.scratch_page + 1) * size_t{kPageTokens}),
        logits(size_t{2} * static_cast<size_t>(sizes.max_rows + sizes.tile)),
        scratch_(1 << 16) {
    MakeEmptyLists(AllShapes(sizes).front().rows, sizes, lists_);
  }

  absl::StatusOr<char*> Allocate(size_t bytes) override {
    if (capturing_) Violation("memory is taken in a capture");
    memory_.push_back(std::make_unique<char[]>(bytes));
    std::memset(memory_.back().get(), 0x5a, bytes);
    return memory_.back().get();
  }
  // The lists of the pass that comes, to their one place on the device.
  void TakeLists(AttentionLists lists) {
    Then([this, lists = std::move(lists)] { lists_ = lists; });
  }
  absl::Status Upload(const char* from, char* to, size_t bytes) override {
    if (capturing_) Violation("an upload is captured");
    // The first token lies at the beginning, whatever the shape.
    const bool stale = fault_ == GraphFault::kStaleInput && !graphs_.empty();
    const size_t kept = stale ? sizeof(int64_t) : 0;
    auto copy = std::make_shared<std::vector<char>>(from, from + bytes);
    const bool late = fault_ == GraphFault::kLateUpload;
    Then([=] {
      if (late) std::memcpy(copy->data(), from, sizeof(int64_t));
      std::memcpy(to + kept, copy->data() + kept, copy->size() - kept);
    });
    return absl::OkStatus();
  }
  absl::Status Synchronise() override {
    if (capturing_) Violation("the host waits in a capture");
    synchronised_ = true;
    for (const auto& work : std::exchange(stream_, {})) work();
    return absl::OkStatus();
  }
  absl::Status Compute(const PassShape& shape, const char* inputs) override {
    const std::pair<int, int> key = {shape.rows, shape.logits_rows};
    if (capturing_ && (warm_.count(key) == 0 || !synchronised_)) Violation("a cold capture");
    if (!capturing_) warm_.insert(key);
    if (capturing_) shape_ = {shape, inputs};
    synchronised_ = false;
    std::vector<Launch> launches = Pass(shape, inputs);
    if (capturing_) {
      captured_ = std::move(launches);
    } else {
      for (Launch& launch : launches) Then(std::move(launch.work));
    }
    return absl::OkStatus();
  }
  absl::Status BeginCapture() override {
    capturing_ = true;
    captured_.clear();
    return absl::OkStatus();
  }
  absl::StatusOr<int> EndCapture() override {
    capturing_ = false;
    if (!graphs_.empty() && used_ > pool_) Violation("the pool grows after the first capture");
    pool_ = std::max(pool_, used_);
    graphs_.push_back({shape_.first, shape_.second, captured_});
    return static_cast<int>(graphs_.size()) - 1;
  }
  absl::Status Replay(int number) override {
    const Graph& graph = graphs_[static_cast<size_t>(number)];
    Compare(graph.launches, Pass(graph.shape, graph.inputs));
    for (const Launch& launch : graph.launches) Then(launch.work);
    ++replays;
    return absl::OkStatus();
  }

  // Puts `work` behind what is on the stream.
  void Then(std::function<void()> work) { stream_.push_back(std::move(work)); }

  int longest_row = 0;  // of the pass that comes, where a step looks at it (kHostNumber, kGrows)
  int replays = 0;
  std::vector<std::string> violations;

 private:
  struct Launch {
    std::string name;
    std::vector<const void*> memory;  // that it reads and writes
    std::vector<int64_t> numbers;     // of the host, sizes too
    std::function<void()> work;
  };
  struct Graph {
    PassShape shape;
    const char* inputs = nullptr;
    std::vector<Launch> launches;
  };

  void Violation(const std::string& what) { violations.push_back(what); }

  void Compare(const std::vector<Launch>& captured, const std::vector<Launch>& now) {
    if (captured.size() != now.size()) return Violation("another number of launches");
    for (size_t i = 0; i < now.size(); ++i) {
      const Launch& a = captured[i];
      const Launch& b = now[i];
      if (a.name != b.name) Violation(absl::StrCat("launch ", i, " is another one"));
      if (a.memory != b.memory) Violation(absl::StrCat(a.name, ": a pointer differs"));
      if (a.numbers != b.numbers) Violation(absl::StrCat(a.name, ": a number differs"));
    }
  }

  // Scratch memory of a pass: the same for every pass, from the pool.
  uint32_t* Scratch(size_t count) {
    uint32_t* taken = scratch_.data() + used_;
    used_ += count;
    return taken;
  }

  // What a pass launches.
  std::vector<Launch> Pass(const PassShape& shape, const char* inputs) {
    const InputLayout layout = LayoutOf(shape);
    const auto* tokens = reinterpret_cast<const int64_t*>(inputs + layout.tokens);
    const auto* positions = reinterpret_cast<const int64_t*>(inputs + layout.positions);
    const auto* cells = reinterpret_cast<const int64_t*>(inputs + layout.cells);
    const auto* wanted = reinterpret_cast<const int64_t*>(inputs + layout.wanted);
    const int rows = shape.rows, results = shape.logits_rows;
    used_ = 0;
    uint32_t* x = Scratch(static_cast<size_t>(rows));
    if (fault_ == GraphFault::kGrows) Scratch(static_cast<size_t>(longest_row));
    uint32_t* y = Scratch(static_cast<size_t>(rows));
    if (fault_ == GraphFault::kMovedPointer) y = reinterpret_cast<uint32_t*>(Memory(rows * 4));
    if (fault_ == GraphFault::kAllocates && capturing_) (void)*Allocate(64);
    if (fault_ == GraphFault::kSynchronises && capturing_) (void)Synchronise();
    const int bound =
        fault_ == GraphFault::kHostNumber ? longest_row : sizes_.max_pages * kPageTokens;
    uint32_t* cache_data = cache.data();
    uint32_t* out = logits.data();
    const bool spills = fault_ == GraphFault::kPaddingWrites;
    const int64_t scratch_cell = int64_t{sizes_.scratch_page} * kPageTokens;
    return {{"embed",
             {tokens, positions, x},
             {rows},
             [=] {
               for (int i = 0; i < rows; ++i) x[i] = CellOf(tokens[i], positions[i]);
             }},
            {"write",
             {cells, x, cache_data},
             {rows},
             [=] {
               for (int i = 0; i < rows; ++i) {
                 cache_data[spills && cells[i] == scratch_cell ? i : cells[i]] = x[i];
               }
             }},
            {"attend",
             {&lists_, cache_data, y},
             {rows, bound},
             [=, lists = &lists_] {
               for (int i = 0; i < rows; ++i) {
                 const kernels::CacheRow& row = lists->rows[static_cast<size_t>(i)];
                 uint32_t hash = 2166136261u;
                 for (int at = 0; at <= static_cast<int>(row.position) && at < bound; ++at) {
                   const auto place = static_cast<size_t>(at);
                   const size_t page = lists->words[row.first_page + place / kPageTokens];
                   hash = HashOf(hash, cache_data[page * kPageTokens + place % kPageTokens]);
                 }
                 y[i] = hash;
               }
             }},
            {"logits", {wanted, y, out}, {results}, [=] {
               for (int i = 0; i < results; ++i) out[i] = y[wanted[i]];
             }}};
  }
  char* Memory(int bytes) {
    memory_.push_back(std::make_unique<char[]>(static_cast<size_t>(bytes)));
    return memory_.back().get();
  }

  const InputSizes sizes_;
  const GraphFault fault_;

 public:
  std::vector<uint32_t> cache;   // by cell of the whole cache; the scratch page is the last
  std::vector<uint32_t> logits;  // a number a row

 private:
  std::vector<std::function<void()>> stream_;
  AttentionLists lists_;
  std::vector<uint32_t> scratch_;
  std::vector<std::unique_ptr<char[]>> memory_;
  std::vector<Graph> graphs_;
  std::vector<Launch> captured_;
  std::pair<PassShape, const char*> shape_;
  std::set<std::pair<int, int>> warm_;
  bool capturing_ = false;
  bool synchronised_ = false;
  size_t used_ = 0;  // of the scratch memory, by the pass under way
  size_t pool_ = 0;  // by the captures until now
};

}  // namespace tandem::torch
