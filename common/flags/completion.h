// What a shell may write in place of the word that is being typed.
//
// A shell's function asks the program itself, so it knows the flags that the program has:
//
//   PROGRAM --complete WORD… TYPED
//
// Thread safety: plain values and pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tandem::flags {

struct CompletionFlag {
  std::string name;  // without its two hyphens
  std::string help;
  char letter = 0;  // -p; 0: none
  bool takes_value = true;
  bool repeats = false;
  std::vector<std::string> choices;  // of its values; empty: it has no list of them
};

// The words after --complete, if the arguments ask for completions (--complete comes first).
std::optional<absl::Span<const std::string>> CompletedWords(absl::Span<const std::string> args);

// The last of `words` is what was typed so far, maybe nothing; the others stand before it. Returns
// completions, one per line: the whole word, and after a tab what it means. Nothing: the shell may
// complete a file's name.
std::string Completions(const std::vector<CompletionFlag>& flags,
                        absl::Span<const std::string> words);

// A line of it.
std::string CompletionLine(absl::string_view word, absl::string_view help);

}  // namespace tandem::flags
