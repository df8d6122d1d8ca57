#include "common/process/room.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <new>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/concurrency/notification.h"
#include "common/process/exit_codes.h"
#include "common/process/machine.h"

namespace tandem::process {
namespace {

// gRPC's, our own and those of a model's passes on a small machine. Each has a stack of addresses.
constexpr int kThreads = 32;
// Of the libraries' heaps, beside stacks: what a service at rest has, and some for its first calls.
constexpr int64_t kServiceBytes = int64_t{192} << 20;

std::string Megabytes(int64_t bytes) {
  return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6);
}

int64_t UsedAddresses() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  file >> pages;
  return pages * sysconf(_SC_PAGE_SIZE);
}

const char* out_of_memory_name = "";

void SayAndExit(const char* what) {
  // No allocation, and no destructors: other threads are in the middle of things.
  const bool json = base::GetLogFormat() == base::LogFormat::kJson;
  const char* const parts[] = {json ? R"({"level": "ERROR", "message": ")" : "", out_of_memory_name,
                               ": ", what, json ? "\"}\n" : "\n"};
  for (const char* part : parts) {
    if (write(STDERR_FILENO, part, std::strlen(part)) < 0) break;
  }
  _exit(kExitFailure);
}

void* WaitForEnd(void* end) {
  static_cast<concurrency::Notification*>(end)->Wait();
  return nullptr;
}

int64_t StackBytes() {
  pthread_attr_t attributes;
  size_t bytes = 0;
  if (pthread_attr_init(&attributes) != 0) return 0;
  pthread_attr_getstacksize(&attributes, &bytes);
  pthread_attr_destroy(&attributes);
  return static_cast<int64_t>(bytes);
}

bool HasAddresses(int64_t bytes) {
  void* const memory = mmap(nullptr, static_cast<size_t>(bytes), PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  munmap(memory, static_cast<size_t>(bytes));
  return true;
}

}  // namespace

FreeMemory ThisFreeMemory() {
  FreeMemory free;
  free.memory_bytes = ThisMachine().memory_bytes;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    free.address_bytes =
        std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - UsedAddresses());
  }
  return free;
}

int64_t WrittenMemory() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0;
  int64_t resident = 0;
  int64_t shared = 0;
  file >> all >> resident >> shared;
  return (resident - shared) * sysconf(_SC_PAGE_SIZE);
}

absl::Status CheckMemory(const std::string& what, const std::vector<MemoryPart>& parts,
                         const FreeMemory& free, const char* where) {
  int64_t all = 0;
  int64_t written = 0;
  std::vector<std::string> texts;
  for (const MemoryPart& part : parts) {
    all += part.bytes;
    if (part.is_written) written += part.bytes;
    texts.push_back(absl::StrCat(part.name, " ", Megabytes(part.bytes)));
  }
  const auto lacks = [&](int64_t needed, int64_t there, const char* of) {
    return absl::ResourceExhaustedError(
        absl::StrCat(what, ": there is not enough memory. Needed: ", absl::StrJoin(texts, ", "),
                     ", together ", Megabytes(needed), "; there are ", Megabytes(there), " ", of,
                     ", so ", Megabytes(needed - there), " are missing"));
  };
  if (all > free.address_bytes) {
    return lacks(all, free.address_bytes, "left of the limit of addresses (ulimit -v)");
  }
  if (written > free.memory_bytes) {
    return lacks(written, std::max<int64_t>(0, free.memory_bytes), where);
  }
  return absl::OkStatus();
}

MemoryPart ServiceRoom() {
  return {"threads and buffers", kThreads * StackBytes() + kServiceBytes, /*is_written=*/false};
}

absl::Status CheckRoomForService() {
  const FreeMemory free = ThisFreeMemory();
  if (free.address_bytes != INT64_MAX) {
    // Each thread would reserve 64 MB of addresses for a heap of its own.
    mallopt(M_ARENA_MAX, 2);
    TANDEM_RETURN_IF_ERROR(CheckMemory("this service", {ServiceRoom()}, free));
  }
  concurrency::Notification end;
  std::vector<pthread_t> threads;
  const absl::Cleanup join = [&] {
    end.Notify();
    for (pthread_t thread : threads) pthread_join(thread, nullptr);
  };
  while (threads.size() < kThreads) {
    pthread_t thread;
    const int error = pthread_create(&thread, nullptr, WaitForEnd, &end);
    if (error != 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "a service needs about ", kThreads, " threads, and the system gives it ", threads.size(),
          " (", std::strerror(error), "): raise the limit of processes (ulimit -u, pids.max)"));
    }
    threads.push_back(thread);
  }
  if (HasAddresses(kServiceBytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("a service needs ", Megabytes(kServiceBytes),
                   " of memory beside what it loads, and the system does not give it that much"));
}

void ExitWhenOutOfMemory(const char* name) {
  out_of_memory_name = name;
  std::set_new_handler([] { SayAndExit("out of memory: an allocation failed"); });
  std::set_terminate([] {
    // A thread that cannot begin is an exception that nobody catches.
    if (const std::exception_ptr error = std::current_exception()) {
      try {
        std::rethrow_exception(error);
      } catch (const std::system_error&) {
        SayAndExit("out of threads or memory: a thread cannot begin");
      } catch (...) {
      }
    }
    std::abort();
  });
}

}  // namespace tandem::process
