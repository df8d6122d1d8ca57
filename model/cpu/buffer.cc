#include "model/cpu/buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

namespace tandem::model::cpu {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

Buffer::Buffer(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  // A whole number of huge pages for what is large, so that neighbours do not share one.
  if (bytes >= kHugePage) bytes_ = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
               -1, 0);
  if (data_ == MAP_FAILED) throw std::bad_alloc();
  // Advice only: without huge pages everything works, with more TLB misses.
  if (bytes_ >= kHugePage) madvise(data_, bytes_, MADV_HUGEPAGE);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace tandem::model::cpu
