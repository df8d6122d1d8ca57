// What the parts of a start took, one behind the other.
//
// Thread safety: none.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace tandem::torch {

class Phases {
 public:
  // Names what went on since the phase before, or since the beginning.
  void End(const std::string& name) {
    const auto now = std::chrono::steady_clock::now();
    all_.emplace_back(name, std::chrono::duration<double>(now - began_).count());
    began_ = now;
  }
  const std::vector<std::pair<std::string, double>>& all() const { return all_; }  // seconds

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::vector<std::pair<std::string, double>> all_;
};

}  // namespace tandem::torch
