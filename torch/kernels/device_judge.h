// The judge on a card, as passes use it: tables go up, seven kernels run where the logits lie, some
// 40 bytes per row come back. Nothing waits for the card but JudgeFlight::Await, so several passes
// may be under way.
//
//   flight->Begin(stream);           the pass is put on the stream …
//   flight->tables().AddBlock(…);
//   flight->Judge(logits, stride);   … and its judgement behind it
//   flight->Await();
//
// Thread safety: as CudaDriver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "torch/kernels/cuda_buffer.h"
#include "torch/kernels/cuda_driver.h"
#include "torch/kernels/judge_tables.h"

namespace tandem::kernels {

class DeviceJudge;

// What came back of a pass.
struct JudgedPass {
  std::vector<JudgedPart> parts;  // in the order in which the tables got them
  absl::Duration computed;        // from Begin to the end of the judge, by the card's clock
};

// One pass at a time. Its judge outlives it.
class JudgeFlight {
 public:
  explicit JudgeFlight(DeviceJudge& judge);
  ~JudgeFlight();
  JudgeFlight(const JudgeFlight&) = delete;
  JudgeFlight& operator=(const JudgeFlight&) = delete;

  // `stream` (a CUstream) takes the pass from here on. Tables are empty.
  absl::Status Begin(void* stream);

  JudgeTables& tables() { return tables_; }

  // Judges the tables' rows, of logits on the card in rows of `stride` floats. Without rows nothing
  // is launched. After it the pass has ended for the stream.
  absl::Status Judge(const float* logits, uint64_t stride);

  // Waits for it. INTERNAL: the card failed, at this pass or before.
  absl::StatusOr<JudgedPass> Await();

 private:
  absl::Status Put();  // the tables on the card
  absl::Status MakeEvents();

  DeviceJudge& judge_;
  JudgeTables tables_;
  CudaBuffer staging_;  // the tables as they are copied
  CudaBuffer input_;
  CudaBuffer output_;  // states, then verdicts, then top log probabilities
  CudaBuffer result_;  // the last two
  void* begin_ = nullptr;
  void* end_ = nullptr;
  void* stream_ = nullptr;
};

// Room for the judge's work, which passes share, because a stream runs one after the other.
class DeviceJudge {
 public:
  // What it takes of the card: for `max_rows` rows, if these take at most a GiB. Those of 152,000
  // tokens take 2.5 MB each.
  static size_t WorkspaceBytes(uint32_t vocabulary_size, int max_rows);

  // `kernels`: judge.cu. `vocabulary_size`: ids below it are tokens. `max_rows`: of a pass. More
  // rows than the workspace has room for are judged one part after the other.
  DeviceJudge(std::unique_ptr<CudaDriver> driver, std::unique_ptr<KernelModule> kernels,
              uint32_t vocabulary_size, int max_rows);

  CudaDriver& driver() { return *driver_; }
  uint32_t vocabulary_size() const { return vocabulary_size_; }

 private:
  friend class JudgeFlight;

  // Fills in the workspace's fields.
  absl::Status Lend(JudgeArguments& arguments);

  const std::unique_ptr<CudaDriver> driver_;
  const std::unique_ptr<KernelModule> kernels_;
  const uint32_t vocabulary_size_;
  const uint32_t rows_;  // of the workspace
  CudaBuffer workspace_;
};

}  // namespace tandem::kernels
