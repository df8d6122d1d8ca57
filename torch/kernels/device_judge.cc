#include "torch/kernels/device_judge.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "torch/kernels/launch.h"

namespace tandem::kernels {
namespace {

using Place = CudaBuffer::Place;

constexpr size_t kAlignment = 256;
size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Of a row of the workspace, as its kernels stride over them.
uint32_t Stride(uint32_t vocabulary_size) {
  return (vocabulary_size + kMinColumn - 1) / kMinColumn * kMinColumn;
}
constexpr size_t kBytesAToken = sizeof(double) + sizeof(float) + sizeof(uint32_t);
size_t RowBytes(uint32_t vocabulary_size) {
  const size_t stride = Stride(vocabulary_size);
  return stride * kBytesAToken + stride / kMinColumn * sizeof(RowPart);
}

constexpr size_t kMostBytes = size_t{1} << 30;

template <typename T>
size_t Bytes(const std::vector<T>& values) {
  return values.size() * sizeof(T);
}

}  // namespace

size_t DeviceJudge::WorkspaceBytes(uint32_t vocabulary_size, int max_rows) {
  const size_t bytes = RowBytes(vocabulary_size);
  return std::clamp(kMostBytes / bytes, size_t{1}, static_cast<size_t>(max_rows)) * bytes;
}

DeviceJudge::DeviceJudge(std::unique_ptr<CudaDriver> driver, std::unique_ptr<KernelModule> kernels,
                         uint32_t vocabulary_size, int max_rows)
    : driver_(std::move(driver)),
      kernels_(std::move(kernels)),
      vocabulary_size_(vocabulary_size),
      rows_(static_cast<uint32_t>(WorkspaceBytes(vocabulary_size, max_rows) /
                                  RowBytes(vocabulary_size))),
      workspace_(*driver_, Place::kDevice) {}

absl::Status DeviceJudge::Lend(JudgeArguments& arguments) {
  const uint32_t stride = Stride(vocabulary_size_);
  const size_t tokens = size_t{rows_} * stride;
  TANDEM_RETURN_IF_ERROR(workspace_.Grow(rows_ * RowBytes(vocabulary_size_)));
  arguments.vocabulary_size = vocabulary_size_;
  arguments.workspace_stride = stride;
  arguments.weights = workspace_.at<double>(0);
  arguments.processed = workspace_.at<float>(tokens * sizeof(double));
  arguments.workspace_ids = workspace_.at<uint32_t>(tokens * (sizeof(double) + sizeof(float)));
  arguments.parts = workspace_.at<RowPart>(tokens * kBytesAToken);
  return absl::OkStatus();
}

JudgeFlight::JudgeFlight(DeviceJudge& judge)
    : judge_(judge),
      staging_(*judge.driver_, Place::kPinned),
      input_(*judge.driver_, Place::kDevice),
      output_(*judge.driver_, Place::kDevice),
      result_(*judge.driver_, Place::kPinned) {}

JudgeFlight::~JudgeFlight() {
  const DriverFunctions& driver = judge_.driver_->functions();
  for (void* event : {begin_, end_}) {
    if (event != nullptr) driver.destroy_event(event);
  }
}

absl::Status JudgeFlight::MakeEvents() {
  for (void** event : {&begin_, &end_}) {
    if (*event != nullptr) continue;
    TANDEM_ASSIGN_OR_RETURN(*event, judge_.driver_->MakeEvent());
  }
  return absl::OkStatus();
}

absl::Status JudgeFlight::Begin(void* stream) {
  tables_.Clear();
  stream_ = stream;
  TANDEM_RETURN_IF_ERROR(judge_.driver_->MakeCurrent());
  TANDEM_RETURN_IF_ERROR(MakeEvents());
  return judge_.driver_->Checked(judge_.driver_->functions().record_event(begin_, stream_),
                                 "recording an event");
}

absl::Status JudgeFlight::Judge(const float* logits, uint64_t stride) {
  const size_t rows = tables_.rows().size();
  if (rows > 0) {
    const size_t rows_at = Aligned(Bytes(tables_.sequences()));
    const size_t ids = rows_at + Aligned(Bytes(tables_.rows()));
    const size_t numbers = ids + Aligned(Bytes(tables_.ids()));
    TANDEM_RETURN_IF_ERROR(Put());
    const size_t verdicts = Aligned(rows * sizeof(RowState));
    const size_t top = verdicts + rows * sizeof(RowVerdict);
    const size_t all = top + rows * tables_.top_stride() * sizeof(TopLogprob);
    TANDEM_RETURN_IF_ERROR(output_.Grow(all));
    TANDEM_RETURN_IF_ERROR(result_.Grow(all - verdicts));
    JudgeArguments arguments;
    TANDEM_RETURN_IF_ERROR(judge_.Lend(arguments));
    arguments.sequences = input_.at<JudgeSequence>(0);
    arguments.rows = input_.at<JudgeRow>(rows_at);
    arguments.ids = input_.at<uint32_t>(ids);
    arguments.numbers = input_.at<double>(numbers);
    arguments.logits = logits;
    arguments.logits_stride = stride;
    arguments.states = output_.at<RowState>(0);
    arguments.verdicts = output_.at<RowVerdict>(verdicts);
    arguments.top = output_.at<TopLogprob>(top);
    arguments.top_stride = tables_.top_stride();
    TANDEM_RETURN_IF_ERROR(LaunchJudge(*judge_.kernels_, arguments, static_cast<uint32_t>(rows),
                                       judge_.rows_, stream_));
    TANDEM_RETURN_IF_ERROR(output_.CopyOut(verdicts, result_.at<void>(0), all - verdicts, stream_));
  }
  return judge_.driver_->Checked(judge_.driver_->functions().record_event(end_, stream_),
                                 "recording an event");
}

// One copy for all lists, each at a multiple of kAlignment.
absl::Status JudgeFlight::Put() {
  const std::pair<const void*, size_t> lists[] = {
      {tables_.sequences().data(), Bytes(tables_.sequences())},
      {tables_.rows().data(), Bytes(tables_.rows())},
      {tables_.ids().data(), Bytes(tables_.ids())},
      {tables_.numbers().data(), Bytes(tables_.numbers())}};
  size_t all = 0;
  for (const auto& [list, bytes] : lists) all += Aligned(bytes);
  TANDEM_RETURN_IF_ERROR(staging_.Grow(all));
  TANDEM_RETURN_IF_ERROR(input_.Grow(all));
  size_t at = 0;
  for (const auto& [list, bytes] : lists) {
    if (bytes > 0) std::memcpy(staging_.at<void>(at), list, bytes);
    at += Aligned(bytes);
  }
  return input_.CopyIn(staging_.at<void>(0), all, stream_);
}

absl::StatusOr<JudgedPass> JudgeFlight::Await() {
  const DriverFunctions& driver = judge_.driver_->functions();
  TANDEM_RETURN_IF_ERROR(judge_.driver_->MakeCurrent());
  TANDEM_RETURN_IF_ERROR(
      judge_.driver_->Checked(driver.wait_for_event(end_), "waiting for the card"));
  float milliseconds = 0;
  TANDEM_RETURN_IF_ERROR(judge_.driver_->Checked(driver.elapsed_time(&milliseconds, begin_, end_),
                                                 "reading the card's clock"));
  JudgedPass judged;
  judged.computed = absl::Milliseconds(double{milliseconds});
  const size_t rows = tables_.rows().size();
  if (rows == 0) return judged;
  judged.parts =
      tables_.Read(absl::MakeConstSpan(result_.at<const RowVerdict>(0), rows),
                   absl::MakeConstSpan(result_.at<const TopLogprob>(rows * sizeof(RowVerdict)),
                                       rows * tables_.top_stride()));
  return judged;
}

}  // namespace tandem::kernels
