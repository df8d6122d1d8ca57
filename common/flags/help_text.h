// What --help says of flags.
#pragma once

#include <string>
#include <vector>

namespace tandem::flags {

struct HelpEntry {
  std::string group;  // entries of a group follow each other; empty: none
  std::string name;   // without its two hyphens
  std::string help;   // a line break in it stays one
  std::string facts;  // "1 to 16; default 4"; empty: nothing to say
};

// Names in one column, what they mean beside them, within 100 columns where a name leaves room for
// it. A group begins with its name. Pure function.
std::string HelpText(const std::vector<HelpEntry>& entries);

}  // namespace tandem::flags
