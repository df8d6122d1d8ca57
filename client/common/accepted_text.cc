#include "client/common/accepted_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tandem::client {
namespace {

// The terminal's own green, which fits its background.
constexpr absl::string_view kAccepted = "32";

}  // namespace

std::string AcceptedText(const v1::Delta& delta, const TerminalStyle& style) {
  if (!style.color || delta.text_runs().empty()) return delta.text();
  std::string text;
  absl::string_view rest = delta.text();
  for (const v1::TextRun& run : delta.text_runs()) {
    text += Paint(run.accepted() ? kAccepted : "", rest.substr(0, run.bytes()), style);
    rest.remove_prefix(run.bytes());
  }
  return text;
}

std::string AcceptedLegend(const TerminalStyle& style) {
  if (!style.color) return "";
  return absl::StrCat("  ", Paint(kAccepted, "green", style),
                      ": draft tokens that the target accepted\n");
}

}  // namespace tandem::client
