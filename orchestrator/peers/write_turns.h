// When the next message of a stream that many sequences share is written.
//
// Only one message is under way. So messages keep their order (a sequence's end follows what was
// sent of it), and what gets ready meanwhile goes out together. So does what the answers in one
// message lead to, on whatever stream, up to a limit. There is no timer. Each message wakes threads
// here and at the peer: one for a few requests is dearer than their wait for the others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace tandem::orchestrator {

// A shared stream's way out.
class SharedWriter {
 public:
  virtual ~SharedWriter() = default;
  // Writes what waits, if it is time.
  virtual void Flush() = 0;
};

// While it lives, its thread gives out the answers of one message: what they lead to is written at
// its end. One within another does nothing.
class Delivery {
 public:
  Delivery() {
    if (current_ == nullptr) current_ = this;
  }
  ~Delivery() {
    if (current_ != this) return;
    current_ = nullptr;
    for (const auto& writer : writers_) writer->Flush();
  }
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  // Whether this thread is within one; then it flushes the writer at its end.
  static bool Holds(std::shared_ptr<SharedWriter> writer) {
    if (current_ == nullptr) return false;
    auto& writers = current_->writers_;
    if (std::find(writers.begin(), writers.end(), writer) == writers.end()) {
      writers.push_back(std::move(writer));
    }
    return true;
  }

 private:
  inline static thread_local Delivery* current_ = nullptr;
  std::vector<std::shared_ptr<SharedWriter>> writers_;
};

// Not thread-safe: guarded by its writer's lock.
class WriteTurns {
 public:
  // Whether the next message is to be given to the sink now, made of `waiting` requests. It counts
  // as under way then.
  bool Take(size_t waiting, std::shared_ptr<SharedWriter> writer) {
    if (under_way_ || waiting == 0) return false;
    if (waiting < kMaxHeld && Delivery::Holds(std::move(writer))) return false;
    return under_way_ = true;
  }
  void Written() { under_way_ = false; }

 private:
  // While answers are given out, so many requests wait for each other at most: some 2 ms of the
  // orchestrator's time.
  static constexpr size_t kMaxHeld = 64;

  bool under_way_ = true;  // the Hello
};

}  // namespace tandem::orchestrator
