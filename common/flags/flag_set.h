// The flags of a program, or of one of its commands: declared once, with their ranges, then read.
//
//   flags::FlagSet set("tandem-target", "Checks blocks of tokens with one model.");
//   set.Group("Capacity");
//   set.Number("max-sequences", &options.max_sequences, 1, 65536, "sequences held at once");
//   absl::Status status = set.Parse(args);
//
// --name=value, --name value, --switch; -n value, where a flag has a letter. Names have hyphens;
// --max_sequences is --max-sequences, too. What a pointer names holds the default, which the help
// tells beside the range.
//
// Why not a library: docs/adr/2026-11-22-flags.md.
//
// Thread safety: one thread. What the pointers name must outlive the set.
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
  // `command` and `summary` head the help text, and `arguments` follow the command there.
  FlagSet(std::string command, std::string summary, std::string arguments = "[flags]");
  // What the flags do points to it.
  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;

  // The help lists the flags that are declared from now on under `title`.
  void Group(absl::string_view title);

  void Text(absl::string_view name, std::string* value, absl::string_view help);
  // May be given again and again.
  void TextList(absl::string_view name, std::vector<std::string>* value, absl::string_view help);
  // One of `choices`. One that ends with ":N" stands for its beginning with any number up to 999 in
  // the place of N.
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
  // "1,2,3", and again and again: at most `max` in all. Whole numbers below 2^32.
  void NumberList(absl::string_view name, std::vector<uint32_t>* value, size_t max,
                  absl::string_view help);
  void Real(absl::string_view name, std::optional<double>* value, Range range,
            absl::string_view help);
  // The same for values that are kept elsewhere: `set` gets each good one. `default_value` is what
  // the help says of it. `add` returns how many there are then.
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
  // As Custom, but may be given again and again.
  void CustomList(absl::string_view name, std::function<absl::Status(absl::string_view)> add,
                  absl::string_view help);
  // -`letter` is --`name`, which is declared already.
  void Letter(char letter, absl::string_view name);
  // One argument that is no flag, `name` in errors; also what begins with a hyphen, after "--".
  // `set` as in Custom. Without it such an argument is an error.
  void Argument(std::string name, std::function<absl::Status(absl::string_view)> set);
  // --flagfile=FILE, again and again: as if the flags of the file (flag_file.h) stood in its place.
  // A file may name another.
  void FlagFiles();

  // A flag that is given again replaces what was said before, as one flag file upon another needs.
  // Without this it is an error.
  void LastOneCounts() { last_one_counts_ = true; }

  // INVALID_ARGUMENT naming the flag as it was written, its value and what would be right: for an
  // unknown flag (and the known one that is nearest), a bad or missing value, a flag given twice,
  // and anything that is no flag. In a flag file: the line, too.
  absl::Status Parse(absl::Span<const std::string> args);

  std::string Help() const;
  // What the arguments ask to be printed in place of all else: the help (--help, -h), or what a
  // shell may write next (completion.h).
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
