#include "client/flags.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tandem::client {
namespace {

constexpr size_t kMaxShown = 60;  // of a wrong value, in bytes

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, diagonal + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

bool Range::Contains(double value) const {
  return (exclusive_min ? value > min : value >= min) && value <= max;
}

std::string Range::ToString() const {
  return absl::StrCat(exclusive_min ? "above " : "", min, exclusive_min ? ", to " : " to ", max);
}

// SimpleAtoi alone would take " 7 " and "+7" as well.
std::optional<uint64_t> ParseWhole(absl::string_view text, uint64_t min, uint64_t max) {
  uint64_t value = 0;
  const bool digits =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (text.empty() || !digits || !absl::SimpleAtoi(text, &value)) return std::nullopt;
  if (value < min || value > max) return std::nullopt;
  return value;
}

absl::Status BadFlag(absl::string_view name, absl::string_view value, absl::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", name, "=", absl::Utf8SafeCHexEscape(value.substr(0, kMaxShown)),
                   value.size() > kMaxShown ? "..." : "", ": ", problem));
}

FlagSet::FlagSet(std::string command, std::string summary)
    : command_(std::move(command)), summary_(std::move(summary)) {}

void FlagSet::Add(absl::string_view name, absl::string_view help,
                  std::function<absl::Status(absl::string_view)> set) {
  Flag flag;
  flag.name = std::string(name);
  flag.help = std::string(help);
  flag.set = std::move(set);
  flags_.push_back(std::move(flag));
}

void FlagSet::Custom(absl::string_view name, std::function<absl::Status(absl::string_view)> set,
                     absl::string_view help) {
  Add(name, help, std::move(set));
}

void FlagSet::CustomList(absl::string_view name, std::function<absl::Status(absl::string_view)> add,
                         absl::string_view help) {
  Add(name, help, std::move(add));
  flags_.back().repeats = true;
}

void FlagSet::Text(absl::string_view name, std::string* value, absl::string_view help) {
  Add(name, help, [value](absl::string_view text) {
    *value = std::string(text);
    return absl::OkStatus();
  });
}

void FlagSet::TextList(absl::string_view name, std::vector<std::string>* value,
                       absl::string_view help) {
  Add(name, help, [value](absl::string_view text) {
    value->emplace_back(text);
    return absl::OkStatus();
  });
  flags_.back().repeats = true;
}

void FlagSet::Choice(absl::string_view name, std::string* value, std::vector<std::string> choices,
                     absl::string_view help) {
  std::string flag(name);
  Add(name, help, [flag, value, choices = std::move(choices)](absl::string_view text) {
    if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
      return BadFlag(flag, text, absl::StrCat("must be one of ", absl::StrJoin(choices, ", ")));
    }
    *value = std::string(text);
    return absl::OkStatus();
  });
}

void FlagSet::OptionalChoice(absl::string_view name, std::string* value,
                             std::vector<std::string> choices, absl::string_view alone,
                             absl::string_view help) {
  Choice(name, value, std::move(choices), help);
  flags_.back().alone = std::string(alone);
}

void FlagSet::Number(absl::string_view name, std::optional<uint64_t>* value, uint64_t min,
                     uint64_t max, absl::string_view help) {
  std::string flag(name);
  Add(name, help, [flag, value, min, max](absl::string_view text) {
    const std::optional<uint64_t> number = ParseWhole(text, min, max);
    if (!number.has_value()) {
      return BadFlag(flag, text, absl::StrCat("must be a whole number, ", min, " to ", max));
    }
    *value = *number;
    return absl::OkStatus();
  });
}

void FlagSet::Number(absl::string_view name, uint64_t* value, uint64_t min, uint64_t max,
                     absl::string_view help) {
  std::string flag(name);
  Add(name, help, [flag, value, min, max](absl::string_view text) {
    const std::optional<uint64_t> number = ParseWhole(text, min, max);
    if (!number.has_value()) {
      return BadFlag(flag, text, absl::StrCat("must be a whole number, ", min, " to ", max));
    }
    *value = *number;
    return absl::OkStatus();
  });
}

void FlagSet::NumberList(absl::string_view name, std::vector<uint32_t>* value, size_t max,
                         absl::string_view help) {
  std::string flag(name);
  CustomList(
      name,
      [flag, value, max](absl::string_view text) {
        for (absl::string_view part : absl::StrSplit(text, ',')) {
          const std::optional<uint64_t> number = ParseWhole(part, 0, UINT32_MAX);
          if (!number.has_value()) {
            return BadFlag(flag, text,
                           absl::StrCat("must be whole numbers, 0 to ", UINT32_MAX,
                                        ", with commas between them"));
          }
          value->push_back(static_cast<uint32_t>(*number));
          if (value->size() > max) {
            return BadFlag(flag, text, absl::StrCat("has more than ", max, " numbers"));
          }
        }
        return absl::OkStatus();
      },
      help);
}

void FlagSet::Real(absl::string_view name, std::optional<double>* value, Range range,
                   absl::string_view help) {
  std::string flag(name);
  Add(name, help, [flag, value, range](absl::string_view text) {
    double number = 0;
    if (!absl::SimpleAtod(text, &number) || !range.Contains(number)) {
      return BadFlag(flag, text, absl::StrCat("must be a number, ", range.ToString()));
    }
    *value = number;
    return absl::OkStatus();
  });
}

void FlagSet::Duration(absl::string_view name, absl::Duration* value, absl::string_view help) {
  std::string flag(name);
  Add(name, help, [flag, value](absl::string_view text) {
    absl::Duration duration;
    if (!absl::ParseDuration(text, &duration) || duration < absl::ZeroDuration()) {
      return BadFlag(flag, text, "must be a duration such as 500ms, 90s or 2m30s; 0 = unlimited");
    }
    *value = duration;
    return absl::OkStatus();
  });
}

void FlagSet::Switch(absl::string_view name, bool* value, absl::string_view help) {
  std::string flag(name);
  Add(name, help, [flag, value](absl::string_view text) {
    if (text != "true" && text != "false") return BadFlag(flag, text, "must be true or false");
    *value = text == "true";
    return absl::OkStatus();
  });
  flags_.back().alone = "true";
}

FlagSet::Flag* FlagSet::Find(absl::string_view name) {
  for (Flag& flag : flags_) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

absl::Status FlagSet::Unknown(absl::string_view name) const {
  std::string hint = absl::StrCat("; `", command_, " --help` lists all");
  size_t best = 3;
  for (const Flag& flag : flags_) {
    size_t distance = EditDistance(name, flag.name);
    if (distance >= best) continue;
    best = distance;
    hint = absl::StrCat("; did you mean --", flag.name, "?");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown flag --", absl::Utf8SafeCHexEscape(name), hint));
}

absl::Status FlagSet::Parse(absl::Span<const std::string> args) {
  for (size_t i = 0; i < args.size(); ++i) {
    absl::string_view arg = args[i];
    if (!absl::ConsumePrefix(&arg, "--") || arg.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("'", absl::Utf8SafeCHexEscape(args[i]),
                                                     "' is no flag; flags are --name=value"));
    }
    size_t equals = arg.find('=');
    absl::string_view name = arg.substr(0, equals);
    Flag* flag = Find(name);
    if (flag == nullptr) return Unknown(name);
    if (flag->given && !flag->repeats) {
      return absl::InvalidArgumentError(absl::StrCat("--", name, " is given twice"));
    }
    flag->given = true;
    absl::string_view value;
    if (equals != absl::string_view::npos) {
      value = arg.substr(equals + 1);
    } else if (flag->alone.has_value()) {
      value = *flag->alone;
    } else if (i + 1 < args.size()) {
      value = args[++i];
    } else {
      return absl::InvalidArgumentError(absl::StrCat("--", name, " needs a value"));
    }
    if (absl::Status status = flag->set(value); !status.ok()) return status;
  }
  return absl::OkStatus();
}

std::string FlagSet::Help() const {
  std::string text = absl::StrCat(summary_, "\n\nUsage: ", command_, " [flags]\n\n");
  size_t width = 0;
  for (const Flag& flag : flags_) width = std::max(width, flag.name.size());
  const std::string next_line = absl::StrCat("\n", std::string(width + 6, ' '));
  for (const Flag& flag : flags_) {
    absl::StrAppend(&text, "  --", flag.name, std::string(width + 2 - flag.name.size(), ' '),
                    absl::StrReplaceAll(flag.help, {{"\n", next_line}}), "\n");
  }
  return text;
}

}  // namespace tandem::client
