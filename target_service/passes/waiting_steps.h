// The Steps that wait for the device, and those that a pass has some rows of, in the order of
// arrival.
//
// Thread safety: none; the device's thread alone.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "target_service/answers/work.h"

namespace tandem::target_service {

class WaitingSteps {
 public:
  void Add(std::unique_ptr<Work> work) { steps_.push_back(std::move(work)); }

  bool empty() const { return steps_.empty(); }
  absl::Span<const std::unique_ptr<Work>> all() const { return steps_; }
  int rows() const;  // that are left of those that are in no pass in flight

  void RemoveAnswered();
  // `dropped` is called with each that goes.
  void RemoveStream(StreamId stream, absl::FunctionRef<void(const Work& work)> dropped);

 private:
  std::vector<std::unique_ptr<Work>> steps_;
};

}  // namespace tandem::target_service
