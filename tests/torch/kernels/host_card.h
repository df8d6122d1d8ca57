// A card that is this process: CUDA's driver as far as cuda_driver.h uses it, with the judge's
// kernels as the host runs them. Nothing that is put on a stream runs before somebody waits for it,
// so what is read too early, or changed too early, shows. There is one card.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/torch/kernels/judge_on_host.h"
#include "torch/kernels/cuda_driver.h"
#include "torch/kernels/device_judge.h"
#include "torch/kernels/kernel_sources.h"

namespace tandem::kernels {

class HostCard {
 public:
  struct Event {
    bool recorded = false;  // and run
    float milliseconds = 0;
  };

  // Forgets what was.
  static HostCard& Fresh() {
    One() = HostCard();
    return One();
  }
  static HostCard& One() {
    static HostCard card;
    return card;
  }

  template <typename Traits>
  static DriverFunctions Functions();

  // Puts something on the stream.
  void Put(std::function<void()> work) { queue.push_back(std::move(work)); }
  void RunUntil(const bool& done) {
    while (!done && !queue.empty()) {
      queue.front()();
      queue.pop_front();
    }
  }

  std::deque<std::function<void()>> queue;  // the stream: what has not run
  std::vector<std::string> names;           // of the functions that were given out
  float milliseconds = 0;                   // the card's clock
  size_t bytes_out = 0;                     // copied from the card
  int allocations = 0;                      // that were not given back
  int failing_launches = 0;                 // the next ones
  size_t launches = 0;                      // that did not fail
};

inline constexpr int kCardFailure = 700;

template <typename Traits>
DriverFunctions HostCard::Functions() {
  DriverFunctions f;
  f.error_string = [](int, const char** text) {
    *text = "planted failure";
    return 0;
  };
  f.retain_context = [](void** context, int) {
    *context = &One();
    return 0;
  };
  f.set_context = [](void* context) { return context == &One() ? 0 : kCardFailure; };
  f.free_memory = [](size_t* free, size_t* all) {
    *free = *all = size_t{1} << 30;
    return 0;
  };
  f.device_attribute = [](int* value, int, int) {
    *value = 9;
    return 0;
  };
  f.load_module = [](void** module, const void*) {
    *module = &One();
    return 0;
  };
  f.unload_module = [](void*) { return 0; };
  f.get_function = [](void** function, void*, const char* name) {
    One().names.push_back(name);
    *function = reinterpret_cast<void*>(One().names.size());
    return 0;
  };
  f.allocate = [](uint64_t* memory, size_t bytes) {
    // Garbage: a card does not clear memory either.
    void* taken = std::malloc(bytes);
    std::memset(taken, 0xa5, bytes);
    *memory = reinterpret_cast<uint64_t>(taken);
    ++One().allocations;
    return 0;
  };
  f.release = [](uint64_t memory) {
    // As the driver: what is on the stream may use it.
    const bool never = false;
    One().RunUntil(never);
    std::free(reinterpret_cast<void*>(memory));
    --One().allocations;
    return 0;
  };
  f.allocate_host = [](void** memory, size_t bytes, unsigned) {
    *memory = std::malloc(bytes);
    ++One().allocations;
    return 0;
  };
  f.release_host = [](void* memory) {
    const bool never = false;
    One().RunUntil(never);
    std::free(memory);
    --One().allocations;
    return 0;
  };
  f.copy_in = [](uint64_t to, const void* from, size_t bytes, void*) {
    One().Put([=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
    return 0;
  };
  f.copy_out = [](void* to, uint64_t from, size_t bytes, void*) {
    One().bytes_out += bytes;
    One().Put([=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); });
    return 0;
  };
  f.create_event = [](void** event, unsigned) {
    *event = new Event;
    return 0;
  };
  f.destroy_event = [](void* event) {
    const bool never = false;
    One().RunUntil(never);
    delete static_cast<Event*>(event);
    return 0;
  };
  f.record_event = [](void* event, void*) {
    auto* mine = static_cast<Event*>(event);
    mine->recorded = false;
    One().Put([mine] {
      mine->recorded = true;
      mine->milliseconds = One().milliseconds;
    });
    return 0;
  };
  f.wait_for_event = [](void* event) {
    One().RunUntil(static_cast<Event*>(event)->recorded);
    return 0;
  };
  f.elapsed_time = [](float* milliseconds, void* from, void* to) {
    *milliseconds = static_cast<Event*>(to)->milliseconds - static_cast<Event*>(from)->milliseconds;
    return 0;
  };
  f.launch = [](void* function, unsigned x, unsigned, unsigned, unsigned, unsigned, unsigned,
                unsigned, void*, void** arguments, void**) {
    if (One().failing_launches > 0) {
      --One().failing_launches;
      return kCardFailure;
    }
    ++One().launches;
    JudgeArguments copied;
    std::memcpy(&copied, arguments[0], sizeof(copied));
    const std::string& name = One().names[reinterpret_cast<size_t>(function) - 1];
    One().Put(
        [name, x, copied] { RunJudgeKernel<Traits>(name, x, copied, ThreadOrder::kAscending); });
    return 0;
  };
  return f;
}

// The judge's kernels on it.
template <typename Traits>
std::unique_ptr<DeviceJudge> JudgeOnCard(uint32_t vocabulary_size, int max_rows) {
  auto driver = std::make_unique<CudaDriver>(HostCard::Functions<Traits>());
  for (const KernelProgram& program : KernelPrograms()) {
    if (program.source.name != std::string("torch/kernels/judge.cu")) continue;
    auto module = driver->LoadModule("", program.kernels);
    if (!module.ok()) return nullptr;
    return std::make_unique<DeviceJudge>(std::move(driver), *std::move(module), vocabulary_size,
                                         max_rows);
  }
  return nullptr;
}

}  // namespace tandem::kernels
