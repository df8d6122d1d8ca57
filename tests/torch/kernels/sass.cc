#include "tests/torch/kernels/sass.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tandem::kernels {
namespace {

struct Line {
  std::string label;     // it is one: ".L_x_3"
  std::string name;      // of an instruction, without its predicate: "LDG.E.128"
  std::string operands;  // what follows the name
};

// "        /*0450*/              @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;"
std::vector<Line> LinesOf(absl::string_view text) {
  std::vector<Line> lines;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (absl::StartsWith(line, ".L_") && absl::ConsumeSuffix(&line, ":")) {
      lines.push_back({std::string(line), "", ""});
      continue;
    }
    const size_t address = line.find("*/");
    if (!absl::StartsWith(line, "/*") || address == line.npos) continue;
    line = absl::StripAsciiWhitespace(line.substr(address + 2));
    if (absl::StartsWith(line, "@")) {
      line = absl::StripAsciiWhitespace(line.substr(std::min(line.find(' '), line.size())));
    }
    const size_t end = line.find_first_of(" ;");
    if (end == line.npos || end == 0) continue;
    lines.push_back({"", std::string(line.substr(0, end)), std::string(line.substr(end))});
  }
  return lines;
}

// Numbers of the registers that operands name, in their order: "R4, desc[UR4][R2.64]" are 4 and 2.
std::vector<int> RegistersOf(const std::string& operands) {
  static const std::regex& registers = *new std::regex("(^|[^A-Za-z0-9_])R([0-9]+)");
  std::vector<int> numbers;
  for (std::sregex_iterator at(operands.begin(), operands.end(), registers), end; at != end; ++at) {
    numbers.push_back(std::stoi((*at)[2]));
  }
  return numbers;
}

// First and last place in `lines` of what a branch back jumps over.
using Loop = std::pair<size_t, size_t>;

std::vector<Loop> LoopsOf(const std::vector<Line>& lines) {
  std::map<std::string, size_t> labels;
  std::vector<Loop> loops;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].label.empty()) labels[lines[i].label] = i;
    if (!absl::StartsWith(lines[i].name, "BRA")) continue;
    const size_t from = lines[i].operands.find(".L_");
    if (from == std::string::npos) continue;
    const size_t to = lines[i].operands.find_first_of(") ;", from);
    const auto label = labels.find(lines[i].operands.substr(from, to - from));
    if (label != labels.end()) loops.emplace_back(label->second, i);
  }
  return loops;
}

// The smallest one around a place; null: there is none.
const Loop* Innermost(const std::vector<Loop>& loops, size_t place) {
  const Loop* innermost = nullptr;
  for (const Loop& loop : loops) {
    if (place < loop.first || place >= loop.second) continue;
    if (innermost == nullptr || loop.second - loop.first < innermost->second - innermost->first) {
      innermost = &loop;
    }
  }
  return innermost;
}

// Loads that are under way, by the registers that they fill.
class UnderWay {
 public:
  void Add(int first, int registers) {
    ++loads_;
    for (int i = 0; i < registers; ++i) of_[first + i] = {loads_, registers};
  }
  void Read(int number) {
    const auto found = of_.find(number);
    if (found == of_.end()) return;
    const auto load = found->second;
    std::erase_if(of_, [&](const auto& one) { return one.second.first == load.first; });
  }
  size_t size() const { return Distinct(0); }
  size_t wide() const { return Distinct(4); }

 private:
  size_t Distinct(int registers) const {
    std::set<size_t> loads;
    for (const auto& [number, load] : of_) {
      if (registers == 0 || load.second == registers) loads.insert(load.first);
    }
    return loads.size();
  }

  size_t loads_ = 0;
  std::map<int, std::pair<size_t, int>> of_;
};

int RegistersOfLoad(const std::string& name) {
  if (absl::StrContains(name, ".128")) return 4;
  return absl::StrContains(name, ".64") ? 2 : 1;
}

bool IsWideLoad(const Line& line) {
  return absl::StartsWith(line.name, "LDG") && RegistersOfLoad(line.name) == 4;
}

bool IsLocal(const Line& line) {
  return absl::StartsWith(line.name, "LDL") || absl::StartsWith(line.name, "STL");
}

SassKernel ReadKernel(std::string name, absl::string_view text) {
  SassKernel kernel;
  kernel.name = std::move(name);
  const std::vector<Line> lines = LinesOf(text);
  const std::vector<Loop> loops = LoopsOf(lines);
  std::set<Loop> wide;
  SassBlock block;
  UnderWay under_way;
  const auto end_block = [&] {
    if (block.in_flight > 0) kernel.in_loops.push_back(block);
    block = {};
    under_way = {};
  };
  for (size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    if (!line.label.empty() || absl::StartsWith(line.name, "BRA")) end_block();
    if (line.name.empty()) continue;
    ++kernel.instructions;
    block.products += absl::StartsWith(line.name, "FFMA");
    if (IsLocal(line)) {
      ++kernel.all_spills;
      kernel.indexed +=
          !absl::StrContains(line.operands, "[R1]") && !absl::StrContains(line.operands, "[R1+0x");
    }
    std::vector<int> registers = RegistersOf(line.operands);
    const bool load = absl::StartsWith(line.name, "LDG") && !registers.empty();
    for (size_t at = load ? 1 : 0; at < registers.size(); ++at) under_way.Read(registers[at]);
    const Loop* loop = load ? Innermost(loops, i) : nullptr;
    if (loop == nullptr) continue;
    under_way.Add(registers[0], RegistersOfLoad(line.name));
    if (RegistersOfLoad(line.name) == 4) {
      ++block.wide_loads;
      wide.insert(*loop);
    }
    block.in_flight = std::max(block.in_flight, under_way.size());
    block.wide_in_flight = std::max(block.wide_in_flight, under_way.wide());
  }
  end_block();
  for (const auto& [first, last] : wide) {
    size_t products = 0, loads = 0;
    for (size_t i = first; i < last; ++i) {
      kernel.spills += IsLocal(lines[i]);
      products += absl::StartsWith(lines[i].name, "HMMA");
      loads += IsWideLoad(lines[i]);
    }
    size_t& most = kernel.tensor_products_per_wide_load;
    most = std::max(most, products / loads);
  }
  return kernel;
}

}  // namespace

size_t SassKernel::WideStretches(size_t in_flight) const {
  return static_cast<size_t>(
      std::count_if(in_loops.begin(), in_loops.end(),
                    [&](const SassBlock& one) { return one.wide_in_flight >= in_flight; }));
}

size_t SassKernel::Stretches(size_t in_flight) const {
  return static_cast<size_t>(
      std::count_if(in_loops.begin(), in_loops.end(),
                    [&](const SassBlock& one) { return one.in_flight >= in_flight; }));
}

size_t SassKernel::ProductsPerWideLoad() const {
  size_t most = 0;
  for (const SassBlock& one : in_loops) {
    if (one.wide_loads > 0) most = std::max(most, one.products / one.wide_loads);
  }
  return most;
}

std::vector<SassKernel> ReadSass(absl::string_view text) {
  constexpr absl::string_view kSection = "\n.text.";
  std::vector<SassKernel> kernels;
  size_t at = text.find(kSection);
  while (at != text.npos) {
    const size_t next = text.find(kSection, at + 1);
    absl::string_view section = text.substr(at + kSection.size(), next - at - kSection.size());
    if (next == text.npos) section = text.substr(at + kSection.size());
    kernels.push_back(ReadKernel(std::string(section.substr(0, section.find(':'))), section));
    at = next;
  }
  return kernels;
}

}  // namespace tandem::kernels
