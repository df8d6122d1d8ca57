// Tells how much of the machine others took meanwhile, so that a measurement of several threads can
// be thrown away and repeated where they did not have the cores to themselves. Linux only.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

namespace tandem::bench {

class Others {
 public:
  Others() : start_(Now()), all_(AllSeconds()), own_(OwnSeconds()) {}

  // Cores that other processes kept busy since construction, on average. Children of this process
  // count as its own once they have been waited for. Counted in hundredths of a second: too coarse
  // for less than a tenth.
  double Cores() const {
    const double others = (AllSeconds() - all_) - (OwnSeconds() - own_);
    return others / std::chrono::duration<double>(Now() - start_).count();
  }

  // Waits until the others keep less than `cores` busy for a tenth of a second, or for `patience`.
  static void AwaitLess(double cores, std::chrono::duration<double> patience) {
    const auto end = Now() + patience;
    while (Now() < end) {
      const Others others;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (others.Cores() < cores) return;
    }
  }

 private:
  static std::chrono::steady_clock::time_point Now() { return std::chrono::steady_clock::now(); }

  static double AllSeconds() {
    FILE* file = std::fopen("/proc/stat", "r");
    if (file == nullptr) return 0;
    double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, steal = 0;
    const int read = std::fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &system,
                                 &idle, &wait, &irq, &soft, &steal);
    std::fclose(file);
    if (read != 8) return 0;
    return (user + nice + system + irq + soft + steal) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }

  static double OwnSeconds() {
    double seconds = 0;
    for (int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
      rusage usage;
      getrusage(who, &usage);
      seconds += static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
    }
    return seconds;
  }

  const std::chrono::steady_clock::time_point start_;
  const double all_;
  const double own_;
};

}  // namespace tandem::bench
