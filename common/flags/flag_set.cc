#include "common/flags/flag_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/flags/completion.h"
#include "common/flags/flag_file.h"
#include "common/flags/help_text.h"
#include "common/flags/nearest_name.h"

namespace tandem::flags {
namespace {

constexpr int kMaxOpenFiles = 8;  // a file that names itself has no end

// "1 to 16; default 4"; either may be empty.
std::string Facts(absl::string_view range, absl::string_view default_value) {
  if (default_value.empty()) return std::string(range);
  return absl::StrCat(range, range.empty() ? "" : "; ", "default ", default_value);
}

// Bounds that are a type's own say nothing.
std::string RangeText(uint64_t min, uint64_t max) {
  if (max < UINT32_MAX) return absl::StrCat(min, " to ", max);
  return min == 0 ? "" : absl::StrCat("at least ", min);
}

std::string RangeText(absl::Duration min, absl::Duration max) {
  if (max < absl::InfiniteDuration()) {
    return absl::StrCat(absl::FormatDuration(min), " to ", absl::FormatDuration(max));
  }
  return min == absl::ZeroDuration() ? "" : absl::StrCat("at least ", absl::FormatDuration(min));
}

// "cuda:N" is chosen by "cuda:0" to "cuda:999".
bool IsChosen(absl::string_view choice, absl::string_view text) {
  if (!absl::ConsumeSuffix(&choice, ":N")) return text == choice;
  return absl::ConsumePrefix(&text, choice) && absl::ConsumePrefix(&text, ":") &&
         ParseWhole(text, 0, 999).has_value();
}

}  // namespace

FlagSet::FlagSet(std::string command, std::string summary, std::string arguments)
    : command_(std::move(command)),
      summary_(std::move(summary)),
      arguments_(std::move(arguments)) {}

void FlagSet::Group(absl::string_view title) { group_ = std::string(title); }

FlagSet::Flag& FlagSet::Add(absl::string_view name, absl::string_view help,
                            std::function<absl::Status(absl::string_view)> set) {
  Flag flag;
  flag.group = group_;
  flag.name = std::string(name);
  flag.help = std::string(help);
  flag.set = std::move(set);
  flags_.push_back(std::move(flag));
  return flags_.back();
}

void FlagSet::Custom(absl::string_view name, std::function<absl::Status(absl::string_view)> set,
                     absl::string_view help) {
  Add(name, help, std::move(set));
}

void FlagSet::CustomList(absl::string_view name, std::function<absl::Status(absl::string_view)> add,
                         absl::string_view help) {
  Add(name, help, std::move(add)).repeats = true;
}

void FlagSet::Text(absl::string_view name, std::string* value, absl::string_view help) {
  Flag& flag = Add(name, help, [value](absl::string_view text) {
    *value = std::string(text);
    return absl::OkStatus();
  });
  flag.facts = Facts("", *value);
}

void FlagSet::TextList(absl::string_view name, std::vector<std::string>* value,
                       absl::string_view help) {
  CustomList(
      name,
      [value](absl::string_view text) {
        value->emplace_back(text);
        return absl::OkStatus();
      },
      help);
}

void FlagSet::Choice(absl::string_view name, std::string* value, std::vector<std::string> choices,
                     absl::string_view help) {
  Choice(
      name, [value](const std::string& text) { *value = text; }, std::move(choices), *value, help);
}

void FlagSet::Choice(absl::string_view name, std::function<void(const std::string&)> set,
                     std::vector<std::string> choices, absl::string_view default_value,
                     absl::string_view help) {
  const auto check = [name = std::string(name), set = std::move(set),
                      choices](absl::string_view text) {
    const auto chosen = [text](const std::string& choice) { return IsChosen(choice, text); };
    if (std::none_of(choices.begin(), choices.end(), chosen)) {
      return BadFlag(
          name, text,
          absl::StrCat("must be one of ", absl::StrJoin(choices, ", "), DidYouMean(text, choices)));
    }
    set(std::string(text));
    return absl::OkStatus();
  };
  Flag& flag = Add(name, help, check);
  flag.facts = Facts("", default_value);
  flag.choices = std::move(choices);
}

void FlagSet::OptionalChoice(absl::string_view name, std::string* value,
                             std::vector<std::string> choices, absl::string_view alone,
                             absl::string_view help) {
  Choice(name, value, std::move(choices), help);
  flags_.back().alone = std::string(alone);
}

void FlagSet::Number(absl::string_view name, std::function<void(uint64_t)> set, uint64_t min,
                     uint64_t max, absl::string_view default_value, absl::string_view help) {
  const auto parse = [name = std::string(name), min, max,
                      set = std::move(set)](absl::string_view text) {
    const std::optional<uint64_t> number = ParseWhole(text, min, max);
    if (!number.has_value()) {
      return BadFlag(name, text, absl::StrCat("must be a whole number, ", min, " to ", max));
    }
    set(*number);
    return absl::OkStatus();
  };
  Add(name, help, parse).facts = Facts(RangeText(min, max), default_value);
}

void FlagSet::NumberList(absl::string_view name, std::vector<uint32_t>* value, size_t max,
                         absl::string_view help) {
  const auto add = [value](uint32_t number) {
    value->push_back(number);
    return value->size();
  };
  NumberList(name, add, max, help);
}

void FlagSet::NumberList(absl::string_view name, std::function<size_t(uint32_t)> add, size_t max,
                         absl::string_view help) {
  const auto parse = [name = std::string(name), add = std::move(add), max](absl::string_view text) {
    for (absl::string_view part : absl::StrSplit(text, ',')) {
      const std::optional<uint64_t> number = ParseWhole(part, 0, UINT32_MAX);
      if (!number.has_value()) {
        return BadFlag(
            name, text,
            absl::StrCat("must be whole numbers, 0 to ", UINT32_MAX, ", with commas between them"));
      }
      if (add(static_cast<uint32_t>(*number)) > max) {
        return BadFlag(name, text, absl::StrCat("has more than ", max, " numbers"));
      }
    }
    return absl::OkStatus();
  };
  CustomList(name, parse, help);
}

void FlagSet::Real(absl::string_view name, std::optional<double>* value, Range range,
                   absl::string_view help) {
  Real(
      name, [value](double number) { *value = number; }, range,
      value->has_value() ? absl::StrCat(**value) : "", help);
}

void FlagSet::Real(absl::string_view name, std::function<void(double)> set, Range range,
                   absl::string_view default_value, absl::string_view help) {
  const auto parse = [name = std::string(name), set = std::move(set),
                      range](absl::string_view text) {
    double number = 0;
    if (!absl::SimpleAtod(text, &number) || !range.Contains(number)) {
      return BadFlag(name, text, absl::StrCat("must be a number, ", range.ToString()));
    }
    set(number);
    return absl::OkStatus();
  };
  Add(name, help, parse).facts = Facts(range.ToString(), default_value);
}

void FlagSet::Duration(absl::string_view name, absl::Duration* value, absl::Duration min,
                       absl::Duration max, absl::string_view help) {
  const std::string range = RangeText(min, max);
  const auto set = [name = std::string(name), value, min, max, range](absl::string_view text) {
    absl::Duration duration;
    if (!absl::ParseDuration(text, &duration) || duration < min || duration > max) {
      return BadFlag(name, text,
                     absl::StrCat("must be a time with its unit (200ms, 90s, 2m30s)",
                                  range.empty() ? "" : ", ", range));
    }
    *value = duration;
    return absl::OkStatus();
  };
  Add(name, help, set).facts = Facts(range, absl::FormatDuration(*value));
}

void FlagSet::Switch(absl::string_view name, bool* value, absl::string_view help) {
  Switch(
      name, [value](bool on) { *value = on; }, help);
}

void FlagSet::Switch(absl::string_view name, std::function<void(bool)> set,
                     absl::string_view help) {
  const auto parse = [name = std::string(name), set = std::move(set)](absl::string_view text) {
    if (text != "true" && text != "false") return BadFlag(name, text, "must be true or false");
    set(text == "true");
    return absl::OkStatus();
  };
  Add(name, help, parse).alone = "true";
}

void FlagSet::Letter(char letter, absl::string_view name) {
  Flag* const flag = Find(name);
  TANDEM_CHECK(flag != nullptr && FindLetter(letter) == nullptr) << name;
  flag->letter = letter;
  absl::string_view separator = flag->facts.empty() ? "" : "; ";
  flag->facts = absl::StrCat("-", std::string(1, letter), separator, flag->facts);
}

void FlagSet::Argument(std::string name, std::function<absl::Status(absl::string_view)> set) {
  argument_name_ = std::move(name);
  set_argument_ = std::move(set);
}

void FlagSet::FlagFiles() {
  CustomList(
      "flagfile", [this](absl::string_view path) { return ParseFile(std::string(path)); },
      "file with flags, one per line; # begins a comment; may be repeated. A later flag overrides "
      "an earlier one");
}

FlagSet::Flag* FlagSet::Find(absl::string_view name) {
  for (Flag& flag : flags_) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

FlagSet::Flag* FlagSet::FindLetter(char letter) {
  for (Flag& flag : flags_) {
    if (letter != 0 && flag.letter == letter) return &flag;
  }
  return nullptr;
}

absl::Status FlagSet::TakeArgument(absl::string_view arg) {
  if (std::exchange(argument_given_, true)) {
    return absl::InvalidArgumentError(absl::StrCat("'", absl::Utf8SafeCHexEscape(arg), "' is one ",
                                                   argument_name_,
                                                   " too many; put quotes around one with blanks"));
  }
  return set_argument_(arg);
}

absl::Status FlagSet::Unknown(absl::string_view name) const {
  std::vector<std::string> names;
  for (const Flag& flag : flags_) names.push_back(flag.name);
  const std::string nearest = NearestName(absl::StrReplaceAll(name, {{"_", "-"}}), names);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown flag --", absl::Utf8SafeCHexEscape(name),
                   nearest.empty() ? absl::StrCat("; `", command_, " --help` lists all")
                                   : absl::StrCat("; did you mean --", nearest, "?")));
}

absl::Status FlagSet::ParseOne(absl::string_view arg, const std::string* next, bool* took_next) {
  *took_next = false;
  absl::string_view rest = arg;
  const bool is_long = absl::ConsumePrefix(&rest, "--");
  const size_t equals = rest.find('=');
  Flag* flag = nullptr;
  if (is_long && !rest.empty()) {
    const absl::string_view name = rest.substr(0, equals);
    flag = Find(absl::StrReplaceAll(name, {{"_", "-"}}));
    if (flag == nullptr) return Unknown(name);
  } else if (rest.substr(0, equals).size() == 2 && rest[0] == '-') {
    flag = FindLetter(rest[1]);
  }
  if (flag == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("'", absl::Utf8SafeCHexEscape(arg),
                                                   "' is not a flag; flags are --name=value"));
  }
  if (flag->given && !flag->repeats && !last_one_counts_) {
    return absl::InvalidArgumentError(absl::StrCat("--", flag->name, " is given twice"));
  }
  flag->given = true;
  absl::string_view value;
  if (equals != absl::string_view::npos) {
    value = rest.substr(equals + 1);
  } else if (flag->alone.has_value()) {
    value = *flag->alone;
  } else if (next != nullptr) {
    value = *next;
    *took_next = true;
  } else {
    return absl::InvalidArgumentError(absl::StrCat("--", flag->name, " needs a value"));
  }
  return flag->set(value);
}

absl::Status FlagSet::ParseFile(const std::string& path) {
  if (open_files_ == kMaxOpenFiles) {
    return BadFlag(
        "flagfile", path,
        absl::StrCat("is the last of ", kMaxOpenFiles + 1, " files that name each other"));
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<FlagLine> lines, ReadFlagFile(path));
  ++open_files_;
  absl::Status status;
  for (const FlagLine& line : lines) {
    bool took_next = false;
    status = ParseOne(line.text, nullptr, &took_next);
    if (status.ok()) continue;
    status = absl::InvalidArgumentError(absl::StrCat(line.place, ": ", status.message()));
    break;
  }
  --open_files_;
  return status;
}

absl::Status FlagSet::Parse(absl::Span<const std::string> args) {
  bool flags_may_come = true;
  for (size_t i = 0; i < args.size(); ++i) {
    if (set_argument_ && flags_may_come && args[i] == "--") {
      flags_may_come = false;
      continue;
    }
    const bool may_be_flag = flags_may_come && args[i].size() > 1 && args[i][0] == '-';
    if (set_argument_ && !may_be_flag) {
      TANDEM_RETURN_IF_ERROR(TakeArgument(args[i]));
      continue;
    }
    bool took_next = false;
    TANDEM_RETURN_IF_ERROR(
        ParseOne(args[i], i + 1 < args.size() ? &args[i + 1] : nullptr, &took_next));
    if (took_next) ++i;
  }
  return absl::OkStatus();
}

std::string FlagSet::Help() const {
  std::vector<HelpEntry> entries;
  for (const Flag& flag : flags_) entries.push_back({flag.group, flag.name, flag.help, flag.facts});
  return absl::StrCat(summary_, "\n\nUsage: ", command_, " ", arguments_, "\n\n",
                      HelpText(entries));
}

std::optional<std::string> FlagSet::Told(absl::Span<const std::string> args) const {
  const auto words = CompletedWords(args);
  if (!words.has_value()) return AsksForHelp(args) ? std::optional(Help()) : std::nullopt;
  std::vector<CompletionFlag> flags;
  for (const Flag& flag : flags_) {
    flags.push_back(
        {flag.name, flag.help, flag.letter, !flag.alone.has_value(), flag.repeats, flag.choices});
  }
  return Completions(flags, *words);
}

bool AsksForHelp(absl::Span<const std::string> args) {
  const auto end = std::find(args.begin(), args.end(), "--");
  return std::any_of(args.begin(), end,
                     [](const std::string& arg) { return arg == "--help" || arg == "-h"; });
}

}  // namespace tandem::flags
