#include "common/flags/completion.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace tandem::flags {
namespace {

// The flag that `word` names, with or without a value; null: none.
const CompletionFlag* FlagOf(const std::vector<CompletionFlag>& flags, absl::string_view word) {
  const absl::string_view written = word.substr(0, word.find('='));
  for (const CompletionFlag& flag : flags) {
    const bool is_letter =
        flag.letter != 0 && written == absl::StrCat("-", std::string(1, flag.letter));
    if (is_letter || written == absl::StrCat("--", flag.name)) return &flag;
  }
  return nullptr;
}

// Its value is the next word.
bool AwaitsValue(const CompletionFlag* flag, absl::string_view word) {
  return flag != nullptr && flag->takes_value && !absl::StrContains(word, '=');
}

std::string Values(const CompletionFlag& flag, absl::string_view before, absl::string_view typed) {
  std::string lines;
  for (const std::string& choice : flag.choices) {
    if (!absl::StartsWith(choice, typed)) continue;
    absl::StrAppend(&lines, CompletionLine(absl::StrCat(before, choice), ""));
  }
  return lines;
}

}  // namespace

std::optional<absl::Span<const std::string>> CompletedWords(absl::Span<const std::string> args) {
  if (args.size() < 2 || args[0] != "--complete") return std::nullopt;
  return args.subspan(1);
}

std::string CompletionLine(absl::string_view word, absl::string_view help) {
  // One line of the shell's list.
  return absl::StrCat(word, "\t", absl::StrReplaceAll(help, {{"\n", " "}, {"\t", " "}}), "\n");
}

std::string Completions(const std::vector<CompletionFlag>& flags,
                        absl::Span<const std::string> words) {
  const absl::string_view typed = words.back();
  std::vector<const CompletionFlag*> given;
  const CompletionFlag* awaits = nullptr;  // the flag whose value is typed
  for (absl::string_view word : words.subspan(0, words.size() - 1)) {
    if (awaits != nullptr) {
      awaits = nullptr;
      continue;
    }
    if (word == "--") return "";
    const CompletionFlag* const flag = FlagOf(flags, word);
    if (flag != nullptr) given.push_back(flag);
    if (AwaitsValue(flag, word)) awaits = flag;
  }
  if (awaits != nullptr) return Values(*awaits, "", typed);
  if (const size_t equals = typed.find('='); equals != absl::string_view::npos) {
    const CompletionFlag* const flag = FlagOf(flags, typed);
    if (flag == nullptr) return "";
    return Values(*flag, typed.substr(0, equals + 1), typed.substr(equals + 1));
  }
  std::string lines;
  if (!typed.empty() && typed[0] != '-') return lines;
  for (const CompletionFlag& flag : flags) {
    const bool again = std::find(given.begin(), given.end(), &flag) != given.end();
    const std::string word = absl::StrCat("--", flag.name);
    if ((again && !flag.repeats) || !absl::StartsWith(word, typed)) continue;
    lines += CompletionLine(absl::StrCat(word, flag.takes_value ? "=" : ""), flag.help);
  }
  return lines;
}

}  // namespace tandem::flags
