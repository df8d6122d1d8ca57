// Draft and target on the same cores: how many threads each, one process or two, and how passes
// take turns. A closed loop of requests without any network: a request is drafted (four passes of
// one row), then verified (a pass of five rows), and so on; each stage takes those that wait
// together. A run during which others took more than a third of a core is repeated, up to 4 times;
// runs that stayed disturbed are counted.
// Usage: shared_cores [directory of the demo pair] [rounds] [seconds of a run] [requests]
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/model/quiet.h"
#include "bench/model/timing.h"
#include "model/cpu/compute_pool.h"
#include "model/load.h"

namespace tandem::bench {
namespace {

using model::cpu::ComputePool;
using std::chrono::steady_clock;

constexpr int kMaxRequests = 16;
constexpr int kCandidates = 4;
constexpr int kPrefix = 100;    // tokens that a request holds
constexpr int kMaxDrafted = 8;  // requests that are drafted together

enum class Pool { kNone, kFreeCores, kMaxCores };

struct Setting {
  const char* name;
  bool processes;  // two, or one
  int target_threads;
  int draft_threads;
  Pool pool;
};

const Setting kSettings[] = {
    {"one process, target 2 + draft 2 threads", false, 2, 2, Pool::kNone},
    {"one process, 2 + 1", false, 2, 1, Pool::kNone},
    {"one process, 1 + 1", false, 1, 1, Pool::kNone},
    {"one process, pool of free cores, 2 + 2", false, 2, 2, Pool::kFreeCores},
    {"one process, pool of free cores, 2 + 1", false, 2, 1, Pool::kFreeCores},
    {"one process, pool of most cores, 2 + 2", false, 2, 2, Pool::kMaxCores},
    {"one process, pool of most cores, 2 + 1", false, 2, 1, Pool::kMaxCores},
    {"two processes, 2 + 2", true, 2, 2, Pool::kNone},
    {"two processes, 2 + 1", true, 2, 1, Pool::kNone},
    {"two processes, 1 + 1", true, 1, 1, Pool::kNone},
};

// In memory that processes share. Requests wait in one of two queues for a stage.
class Exchange {
 public:
  Exchange() {
    pthread_mutexattr_t mutex;
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&mutex_, &mutex);
    pthread_condattr_t condition;
    pthread_condattr_init(&condition);
    pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&changed_, &condition);
  }

  void Put(int stage, const std::vector<int>& requests) {
    pthread_mutex_lock(&mutex_);
    for (int request : requests) queue_[stage][count_[stage]++] = request;
    pthread_cond_broadcast(&changed_);
    pthread_mutex_unlock(&mutex_);
  }

  // Up to `max` that wait; empty: the run is over.
  std::vector<int> Take(int stage, int max) {
    std::vector<int> taken;
    pthread_mutex_lock(&mutex_);
    while (count_[stage] == 0 && !stopping) pthread_cond_wait(&changed_, &mutex_);
    const int count = stopping ? 0 : std::min(max, count_[stage]);
    taken.assign(queue_[stage], queue_[stage] + count);
    count_[stage] -= count;
    for (int i = 0; i < count_[stage]; ++i) queue_[stage][i] = queue_[stage][i + count];
    pthread_mutex_unlock(&mutex_);
    return taken;
  }

  void Stop() {
    pthread_mutex_lock(&mutex_);
    stopping = true;
    pthread_cond_broadcast(&changed_);
    pthread_mutex_unlock(&mutex_);
  }

  std::atomic<int> ready{0};
  std::atomic<int64_t> verified{0};

 private:
  pthread_mutex_t mutex_;
  pthread_cond_t changed_;
  bool stopping = false;
  int count_[2] = {};
  int queue_[2][kMaxRequests] = {};
};

struct Sequences {
  explicit Sequences(model::LanguageModel& model, int count) {
    const std::vector<uint32_t> prompt(kPrefix, 7);
    for (int i = 0; i < count; ++i) {
      caches.push_back(std::move(model.NewCache(kPrefix + 16)).value());
      if (!model.Forward({{caches.back().get(), prompt, kPrefix}}).ok()) std::abort();
    }
  }
  std::vector<std::unique_ptr<model::Cache>> caches;
};

// One pass with `rows` tokens of each request, all with logits.
void Pass(model::LanguageModel& model, Sequences& sequences, const std::vector<int>& requests,
          int rows) {
  static const std::vector<uint32_t> tokens(kCandidates + 1, 9);
  std::vector<model::ForwardPart> parts;
  for (int request : requests) {
    parts.push_back({sequences.caches[request].get(), absl::MakeSpan(tokens).first(rows), 0});
  }
  if (!model.Forward(parts).ok()) std::abort();
}

void Stage(bool target, const std::string& demo, const Setting& setting,
           std::shared_ptr<ComputePool> pool, int requests, Exchange& exchange) {
  model::LoadOptions options;
  options.directory = demo + (target ? "/target" : "/draft");
  options.threads = target ? setting.target_threads : setting.draft_threads;
  options.compute = std::move(pool);
  auto model = model::Load(options);
  if (!model.ok()) {
    std::fprintf(stderr, "%s\n", model.status().ToString().c_str());
    std::exit(1);
  }
  Sequences sequences(**model, requests);
  exchange.ready.fetch_add(1);
  while (true) {
    const std::vector<int> work = exchange.Take(target ? 1 : 0, target ? requests : kMaxDrafted);
    if (work.empty()) return;
    const int steps = target ? 1 : kCandidates;
    for (int step = 0; step < steps; ++step) {
      Pass(**model, sequences, work, target ? kCandidates + 1 : 1);
    }
    for (int request : work) sequences.caches[request]->Truncate(kPrefix);
    if (target) exchange.verified.fetch_add(static_cast<int64_t>(work.size()));
    exchange.Put(target ? 0 : 1, work);
  }
}

std::shared_ptr<ComputePool> MakePool(Pool pool) {
  if (pool == Pool::kNone) return nullptr;
  return std::make_shared<ComputePool>(2, pool == Pool::kMaxCores
                                              ? ComputePool::Sharing::kMaxCores
                                              : ComputePool::Sharing::kFreeCores);
}

std::vector<pid_t> Start(const std::string& demo, const Setting& setting, int requests,
                         Exchange& exchange) {
  std::vector<pid_t> children;
  for (int i = 0; i < (setting.processes ? 2 : 1); ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    auto pool = MakePool(setting.pool);
    std::vector<std::thread> stages;
    for (bool target : {true, false}) {
      if (setting.processes && target != (i == 0)) continue;
      stages.emplace_back([&, target] { Stage(target, demo, setting, pool, requests, exchange); });
    }
    for (std::thread& stage : stages) stage.join();
    std::_Exit(0);
  }
  return children;
}

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_CHILDREN, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

struct Result {
  double rounds_per_second;
  double cpu_ms_per_round;  // with that of loading, which is small beside a run
};

Result Measure(const std::string& demo, const Setting& setting, int requests, double seconds) {
  void* memory =
      mmap(nullptr, sizeof(Exchange), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  auto* exchange = new (memory) Exchange;
  const double cpu = CpuSeconds();
  const std::vector<pid_t> children = Start(demo, setting, requests, *exchange);
  while (exchange->ready.load() < 2) usleep(1000);
  std::vector<int> some[2];
  for (int i = 0; i < requests; ++i) some[i % 2].push_back(i);
  exchange->Put(0, some[0]);
  exchange->Put(1, some[1]);
  usleep(30000);
  const int64_t before = exchange->verified.load();
  const auto start = steady_clock::now();
  usleep(static_cast<useconds_t>(seconds * 1e6));
  const int64_t verified = exchange->verified.load() - before;
  const std::chrono::duration<double> took = steady_clock::now() - start;
  exchange->Stop();
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) std::exit(1);
  }
  const double all = static_cast<double>(exchange->verified.load());
  munmap(memory, sizeof(Exchange));
  return {static_cast<double>(verified) / took.count(), (CpuSeconds() - cpu) / all * 1e3};
}

constexpr double kQuiet = 0.33;  // cores

Result MeasureInQuiet(const std::string& demo, const Setting& setting, int requests, double seconds,
                      int& disturbed) {
  for (int left = 3;; --left) {
    Others::AwaitLess(kQuiet, std::chrono::milliseconds(700));
    const Others others;
    const Result result = Measure(demo, setting, requests, seconds);
    if (others.Cores() < kQuiet) return result;
    if (left == 0) {
      ++disturbed;
      return result;
    }
  }
}

void Main(const std::string& demo, int rounds, double seconds, const std::vector<int>& loads) {
  for (int requests : loads) {
    std::vector<std::vector<double>> speeds(std::size(kSettings));
    std::vector<std::vector<double>> ratios(std::size(kSettings));
    std::vector<std::vector<double>> cpu(std::size(kSettings));
    int disturbed = 0;
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < std::size(kSettings); ++i) {
        const Result result = MeasureInQuiet(demo, kSettings[i], requests, seconds, disturbed);
        speeds[i].push_back(result.rounds_per_second);
        ratios[i].push_back(result.rounds_per_second / speeds[0].back());
        cpu[i].push_back(result.cpu_ms_per_round);
      }
    }
    std::printf("\n%d requests, %d rounds of %.2f s, %d runs disturbed\n%-42s %28s   %22s  %s\n",
                requests, rounds, seconds, disturbed, "", "rounds/s least/median/most",
                "to the first", "CPU ms a round");
    for (size_t i = 0; i < std::size(kSettings); ++i) {
      const Spread speed = SpreadOf(speeds[i]);
      const Spread ratio = SpreadOf(ratios[i]);
      std::printf("%-42s %8.0f / %8.0f / %8.0f   %.2f / %.2f / %.2f   %.2f\n", kSettings[i].name,
                  speed.min, speed.median, speed.max, ratio.min, ratio.median, ratio.max,
                  SpreadOf(cpu[i]).median);
    }
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  const int requests = argc > 4 ? std::atoi(argv[4]) : 0;
  if (requests < 0 || requests > tandem::bench::kMaxRequests) {
    std::fprintf(stderr, "requests: 1 to %d\n", tandem::bench::kMaxRequests);
    return 1;
  }
  tandem::bench::Main(argc > 1 ? argv[1] : "demo", argc > 2 ? std::atoi(argv[2]) : 7,
                      argc > 3 ? std::atof(argv[3]) : 0.3,
                      requests > 0 ? std::vector<int>{requests} : std::vector<int>{1, 4, 16});
}
