#include "orchestrator/stream/text_runs.h"

#include <algorithm>

#include "common/base/check.h"

namespace tandem::orchestrator {
namespace {

template <typename Runs>
void AddRun(size_t bytes, bool accepted, Runs& runs) {
  if (bytes == 0) return;
  if (runs.empty() || runs.back().accepted != accepted) runs.push_back({0, accepted});
  runs.back().bytes += static_cast<uint32_t>(bytes);
}

}  // namespace

void TextRuns::Push(size_t bytes, bool accepted) { AddRun(bytes, accepted, runs_); }

void TextRuns::Pop(size_t bytes, std::vector<TextRun>& to) {
  while (bytes > 0) {
    TANDEM_CHECK(!runs_.empty());
    TextRun& first = runs_.front();
    const size_t taken = std::min<size_t>(bytes, first.bytes);
    AddRun(taken, first.accepted, to);
    bytes -= taken;
    first.bytes -= static_cast<uint32_t>(taken);
    if (first.bytes == 0) runs_.pop_front();
  }
}

}  // namespace tandem::orchestrator
