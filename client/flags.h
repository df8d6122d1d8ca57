// Flags of a sub-command: --name=value, --name value, --switch. Small, because sub-commands with
// flags of their own and flags that repeat are what Abseil's flags do not offer.
//
//   FlagSet flags("tandem generate", "Streams text.");
//   flags.Number("max-tokens", &options.max_tokens, 0, 1 << 20, "output tokens; 0 = all there is room for");
//   absl::Status status = flags.Parse(args);
//
// Thread safety: one thread. What the pointers name must outlive the set; it holds the default.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace tandem::client {

// A set of real numbers: from `least`, or above it, to `most`.
struct Range {
  double min = 0;
  double max = 0;
  bool exclusive_min = false;  // `least` itself is not in it

  bool Contains(double value) const;  // not for NaN
  std::string ToString() const;
};

class FlagSet {
 public:
  // `command` and `summary` head the help text.
  FlagSet(std::string command, std::string summary);

  void Text(absl::string_view name, std::string* value, absl::string_view help);
  // May be given again and again.
  void TextList(absl::string_view name, std::vector<std::string>* value, absl::string_view help);
  void Choice(absl::string_view name, std::string* value, std::vector<std::string> choices,
              absl::string_view help);
  // As Choice, but --name alone means --name=`alone`.
  void OptionalChoice(absl::string_view name, std::string* value, std::vector<std::string> choices,
                      absl::string_view alone, absl::string_view help);
  void Number(absl::string_view name, uint64_t* value, uint64_t min, uint64_t max,
              absl::string_view help);
  void Number(absl::string_view name, std::optional<uint64_t>* value, uint64_t min, uint64_t max,
              absl::string_view help);
  // "1,2,3", and again and again: at most `most` in all. Whole numbers below 2^32.
  void NumberList(absl::string_view name, std::vector<uint32_t>* value, size_t max,
                  absl::string_view help);
  void Real(absl::string_view name, std::optional<double>* value, Range range,
            absl::string_view help);
  // As Abseil writes it: 90s, 1m30s.
  void Duration(absl::string_view name, absl::Duration* value, absl::string_view help);
  // --name, --name=true, --name=false.
  void Switch(absl::string_view name, bool* value, absl::string_view help);
  // `set` gets the value; its error becomes the flag's.
  void Custom(absl::string_view name, std::function<absl::Status(absl::string_view)> set,
              absl::string_view help);
  // As Custom, but may be given again and again.
  void CustomList(absl::string_view name, std::function<absl::Status(absl::string_view)> add,
                  absl::string_view help);

  // INVALID_ARGUMENT naming the flag, its value and what would be right: for an unknown flag, a bad
  // or missing value, a flag given twice, and anything that is no flag.
  absl::Status Parse(absl::Span<const std::string> args);

  std::string Help() const;

 private:
  struct Flag {
    std::string name;
    std::string help;
    std::function<absl::Status(absl::string_view)> set;
    std::optional<std::string> alone;  // what --name without a value means; absent: it needs one
    bool repeats = false;
    bool given = false;
  };

  Flag* Find(absl::string_view name);
  absl::Status Unknown(absl::string_view name) const;
  void Add(absl::string_view name, absl::string_view help,
           std::function<absl::Status(absl::string_view)> set);

  std::string command_;
  std::string summary_;
  std::vector<Flag> flags_;
};

// Plain decimal digits, `least` to `most`; nullopt for anything else.
std::optional<uint64_t> ParseWhole(absl::string_view text, uint64_t min, uint64_t max);

// "--name=value: what is wrong"; INVALID_ARGUMENT. A long value is cut.
absl::Status BadFlag(absl::string_view name, absl::string_view value, absl::string_view problem);

}  // namespace tandem::client
