// The flags of a program, or of one of its commands: declared once, with their ranges, then read.
//
//   flags::FlagSet set("tandem-target", "Verifies blocks of draft tokens with a model.");
//   set.Group("Capacity");
//   set.Number("max-sequences", &options.max_sequences, 1, 65536, "maximum number of sequences");
//   absl::Status status = set.Parse(args);
//
// Accepts --name=value, --name value, --switch, and -n value for a flag with a letter. Names have
// hyphens; --max_sequences is accepted, too. The variable behind a pointer holds the default, which
// the help shows beside the range.
//
// Why not a library: docs/adr/2026-11-22-flags.md.
//
// Not thread-safe. The variables behind the pointers must outlive the set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/flags/values.h"

namespace tandem::flags {

class FlagSet {
 public:
  // The help text begins with `command`, its `arguments` and `summary`.
  FlagSet(std::string command, std::string summary, std::string arguments = "[flags]");
  // What the flags do points to it.
  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;

  // Flags that are declared after this call are listed under `title` in the help.
  void Group(absl::string_view title);

  void Text(absl::string_view name, std::string* value, absl::string_view help);
  // May be repeated.
  void TextList(absl::string_view name, std::vector<std::string>* value, absl::string_view help);
  // One of `choices`. A choice that ends with ":N" accepts any number up to 999 in place of
  // N.
  void Choice(absl::string_view name, std::string* value, std::vector<std::string> choices,
              absl::string_view help);
  // As Choice, but --name alone means --name=`alone`.
  void OptionalChoice(absl::string_view name, std::string* value, std::vector<std::string> choices,
                      absl::string_view alone, absl::string_view help);
  // Whole: any type of whole numbers that holds `max`.
  template <typename Whole>
  void Number(absl::string_view name, Whole* value, uint64_t min, uint64_t max,
              absl::string_view help) {
    static_assert(std::is_integral_v<Whole>);
    Number(
        name, [value](uint64_t number) { *value = static_cast<Whole>(number); }, min, max,
        absl::StrCat(*value), help);
  }
  template <typename Whole>
  void Number(absl::string_view name, std::optional<Whole>* value, uint64_t min, uint64_t max,
              absl::string_view help) {
    Number(
        name, [value](uint64_t number) { *value = static_cast<Whole>(number); }, min, max,
        value->has_value() ? absl::StrCat(**value) : "", help);
  }
  // "1,2,3"; may be repeated, at most `max` numbers in all. Whole numbers below 2^32.
  void NumberList(absl::string_view name, std::vector<uint32_t>* value, size_t max,
                  absl::string_view help);
  void Real(absl::string_view name, std::optional<double>* value, Range range,
            absl::string_view help);
  // The same for values that are stored elsewhere: `set` receives each valid one. The help shows
  // `default_value`. `add` returns the new count.
  void Choice(absl::string_view name, std::function<void(const std::string&)> set,
              std::vector<std::string> choices, absl::string_view default_value,
              absl::string_view help);
  void Number(absl::string_view name, std::function<void(uint64_t)> set, uint64_t min, uint64_t max,
              absl::string_view default_value, absl::string_view help);
  void NumberList(absl::string_view name, std::function<size_t(uint32_t)> add, size_t max,
                  absl::string_view help);
  void Real(absl::string_view name, std::function<void(double)> set, Range range,
            absl::string_view default_value, absl::string_view help);
  void Switch(absl::string_view name, std::function<void(bool)> set, absl::string_view help);
  // As Abseil writes it: 90s, 1m30s. `max` may be infinite.
  void Duration(absl::string_view name, absl::Duration* value, absl::Duration min,
                absl::Duration max, absl::string_view help);
  // --name, --name=true, --name=false.
  void Switch(absl::string_view name, bool* value, absl::string_view help);
  // `set` gets the value; its error becomes the flag's.
  void Custom(absl::string_view name, std::function<absl::Status(absl::string_view)> set,
              absl::string_view help);
  // As Custom, but may be repeated.
  void CustomList(absl::string_view name, std::function<absl::Status(absl::string_view)> add,
                  absl::string_view help);
  // -`letter` is short for --`name`, which is declared already.
  void Letter(char letter, absl::string_view name);
  // One argument that is not a flag, `name` in errors; also what begins with a hyphen, after "--".
  // `set` as in Custom. Without it such an argument is an error.
  void Argument(std::string name, std::function<absl::Status(absl::string_view)> set);
  // --flagfile=FILE, may be repeated: the flags of the file (flag_file.h) replace it. A file may
  // name another.
  void FlagFiles();

  // A repeated flag overrides its earlier value, which layered flag files require. Otherwise it is
  // an error.
  void LastOneCounts() { last_one_counts_ = true; }

  // INVALID_ARGUMENT naming the flag as it was written, its value and what would be valid: for an
  // unknown flag (with the nearest known one), a bad or missing value, a repeated flag, and
  // anything that is not a flag. In a flag file: the line, too.
  absl::Status Parse(absl::Span<const std::string> args);

  std::string Help() const;
  // What the arguments ask to print instead of running: the help (--help, -h), or completions for a
  // shell (completion.h).
  std::optional<std::string> Told(absl::Span<const std::string> args) const;

 private:
  struct Flag {
    std::string group;
    std::string name;
    std::string help;
    std::string facts;  // of the help: range and default
    std::function<absl::Status(absl::string_view)> set;
    std::optional<std::string> alone;  // what --name without a value means; absent: it needs one
    std::vector<std::string> choices;  // of its values; empty: it has no list of them
    char letter = 0;                   // 0: none
    bool repeats = false;
    bool given = false;
  };

  Flag& Add(absl::string_view name, absl::string_view help,
            std::function<absl::Status(absl::string_view)> set);
  // `name`: with hyphens.
  Flag* Find(absl::string_view name);
  Flag* FindLetter(char letter);
  absl::Status TakeArgument(absl::string_view arg);
  absl::Status Unknown(absl::string_view name) const;
  // One flag. `next`: the value of one that is written without "="; null: there is no more.
  // `took_next`: whether it was used.
  absl::Status ParseOne(absl::string_view arg, const std::string* next, bool* took_next);
  absl::Status ParseFile(const std::string& path);

  std::string command_;
  std::string summary_;
  std::string arguments_;
  std::string group_;
  std::vector<Flag> flags_;
  std::string argument_name_;
  std::function<absl::Status(absl::string_view)> set_argument_;  // empty: there is none
  bool argument_given_ = false;
  bool last_one_counts_ = false;
  int open_files_ = 0;  // one in another
};

// Whether --help or -h is among them.
bool AsksForHelp(absl::Span<const std::string> args);

}  // namespace tandem::flags
