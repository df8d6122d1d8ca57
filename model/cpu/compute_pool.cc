#include "model/cpu/compute_pool.h"

#include <algorithm>

namespace tandem::model::cpu {

using concurrency::MutexLock;

int ComputePool::Acquire(int max) {
  const int wanted = std::min(max, cores_);
  const int min = wanted / 2 + 1;
  MutexLock lock(mutex_);
  const uint64_t ticket = next_ticket_++;
  while (serving_ != ticket || free_ < min) changed_.Wait(mutex_);
  const int taken = std::min(wanted, free_);
  free_ -= taken;
  ++serving_;
  // The next one may find cores left.
  if (free_ > 0 && serving_ != next_ticket_) changed_.NotifyAll();
  return taken;
}

int ComputePool::AcquireFree(int max) {
  MutexLock lock(mutex_);
  if (serving_ != next_ticket_) return 0;
  const int taken = std::min(max, free_);
  free_ -= taken;
  return taken;
}

void ComputePool::Release(int cores) {
  MutexLock lock(mutex_);
  free_ += cores;
  if (serving_ != next_ticket_) changed_.NotifyAll();
}

int ComputePool::waiting() const {
  MutexLock lock(mutex_);
  return static_cast<int>(next_ticket_ - serving_);
}

ComputePool::Turn::Turn(ComputePool* pool, int max)
    : pool_(pool), cores_(pool == nullptr ? max : pool->Acquire(max)) {}

ComputePool::Turn::~Turn() {
  if (pool_ != nullptr) pool_->Release(cores_);
}

ComputePool::Spare::Spare(ComputePool* pool, int max)
    : pool_(pool), cores_(pool == nullptr ? max : pool->AcquireFree(max)) {}

ComputePool::Spare::~Spare() {
  if (pool_ != nullptr && cores_ > 0) pool_->Release(cores_);
}

}  // namespace tandem::model::cpu
