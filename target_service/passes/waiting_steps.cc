#include "target_service/passes/waiting_steps.h"

#include <vector>

namespace tandem::target_service {

int WaitingSteps::rows() const {
  int rows = 0;
  for (const auto& work : steps_) {
    if (work->in_flight == 0) rows += work->left();
  }
  return rows;
}

void WaitingSteps::RemoveAnswered() {
  std::erase_if(steps_, [](const auto& work) { return work->answered; });
}

void WaitingSteps::RemoveStream(StreamId stream,
                                absl::FunctionRef<void(const Work& work)> dropped) {
  std::erase_if(steps_, [stream, dropped](const auto& work) {
    if (work->stream != stream) return false;
    dropped(*work);
    return true;
  });
}

}  // namespace tandem::target_service
