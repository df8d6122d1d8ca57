// Which of a text was drafted, while the text waits to be sent.
//
// Thread safety: plain values; TextRuns is not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace tandem::orchestrator {

// A part of a text, all of it of one origin.
struct TextRun {
  uint32_t bytes = 0;
  bool accepted = false;  // of draft tokens; else of tokens that the target gave itself

  friend bool operator==(const TextRun&, const TextRun&) = default;
};

// A queue of bytes, each with its origin. Neighbours of one origin are one run.
class TextRuns {
 public:
  void Push(size_t bytes, bool accepted);
  // Moves the first `bytes`, which are there, to the end of `to`.
  void Pop(size_t bytes, std::vector<TextRun>& to);

 private:
  std::deque<TextRun> runs_;
};

}  // namespace tandem::orchestrator
