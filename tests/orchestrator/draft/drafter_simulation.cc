#include "tests/orchestrator/draft/drafter_simulation.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "orchestrator/draft/choice/drafter_chooser.h"

namespace tandem::orchestrator {
namespace {

constexpr double kJitter = 0.1;

double RoundSeconds(const DrafterSetting& setting, size_t drafter) {
  const double k = setting.draft_tokens;
  return setting.pass + k * (setting.row + setting.drafters[drafter].draft_token);
}

double Expected(double alpha, uint32_t k) {
  double tokens = 1, all = 1;
  for (uint32_t i = 0; i < k; ++i) tokens += all *= alpha;
  return tokens;
}

double Seconds(const DrafterSetting& setting, const SimulatedText& text, size_t drafter) {
  double seconds = 0;
  for (const Stretch& stretch : text) {
    const double tokens = Expected(stretch.alpha[drafter], setting.draft_tokens);
    seconds += stretch.tokens / tokens * RoundSeconds(setting, drafter);
  }
  return seconds;
}

double Tokens(const SimulatedText& text) {
  double tokens = 0;
  for (const Stretch& stretch : text) tokens += stretch.tokens;
  return tokens;
}

struct Run {
  double seconds = 0;
  int switches = 0;
};

// The tokens of each round are expected ones; what the chooser sees is drawn.
Run Decode(const DrafterSetting& setting, const SimulatedText& text, CommonDrafters& common,
           std::mt19937_64& random) {
  std::vector<std::string> names;
  for (const SimulatedDrafter& drafter : setting.drafters) names.push_back(drafter.name);
  DrafterChooser chooser(names, acceptance::Rule::kSpeculative, 0, common);
  std::uniform_real_distribution<double> uniform(0, 1);
  const double all = Tokens(text);
  Run run;
  std::optional<uint32_t> open;
  for (double at = 0; at < all;) {
    double end = 0;
    size_t stretch = 0;
    while ((end += text[stretch].tokens) <= at) ++stretch;
    RoundRecord round;
    round.drafter = chooser.Next(1, static_cast<uint32_t>(all - at) + 1);
    const uint32_t drafter = round.drafter->index;
    const double alpha = text[stretch].alpha[drafter];
    double seconds = RoundSeconds(setting, drafter) * (1 + kJitter * (2 * uniform(random) - 1));
    if (open != drafter) {
      if (open.has_value()) {
        seconds += setting.drafters[drafter].opening;
        ++run.switches;
      }
      open = drafter;
    }
    uint32_t accepted = 0;
    while (accepted < setting.draft_tokens && uniform(random) < alpha) ++accepted;
    round.choice = LengthChoice{setting.draft_tokens};
    round.asked_tokens = round.draft_tokens = setting.draft_tokens;
    round.accepted_tokens = accepted;
    round.began = concurrency::Instant() + absl::Seconds(run.seconds);
    run.seconds += seconds;
    round.decided = concurrency::Instant() + absl::Seconds(run.seconds);
    chooser.Observe(round);
    const double gives = Expected(alpha, setting.draft_tokens);
    if (at + gives > all) run.seconds -= seconds * (1 - (all - at) / gives);  // a part of a round
    at += gives;
  }
  return run;
}

// The drafters of the grid: a small model, a copier of the text, a table, and one that is of no
// use.
std::vector<SimulatedDrafter> Drafters(double model, double opening, size_t more) {
  std::vector<SimulatedDrafter> drafters = {
      {"model", model, opening}, {"context", 20e-6, 0.5e-3}, {"table", 30e-6, 0.5e-3}};
  for (size_t i = 0; i < more; ++i) {
    drafters.push_back({absl::StrCat("useless-", i), 30e-6, 0.5e-3});
  }
  return drafters;
}

Stretch Of(double model, double context, double table, size_t more, uint32_t tokens) {
  Stretch stretch{{model, context, table}, tokens};
  for (size_t i = 0; i < more; ++i) stretch.alpha.push_back(0.05 + 0.02 * static_cast<double>(i));
  return stretch;
}

}  // namespace

double DrafterSpeeds::best() const { return *std::max_element(alone.begin(), alone.end()); }

std::string DrafterSpeeds::ToString() const {
  std::string text = absl::StrFormat("chosen %.1f (%.3f of the best alone, %.3f of each text's), ",
                                     chosen, chosen / best(), chosen / best_by_text);
  for (double speed : alone) absl::StrAppendFormat(&text, "%.1f ", speed);
  absl::StrAppendFormat(&text, "tokens a second alone; %.1f switches a text", most_switches);
  return text;
}

DrafterSpeeds MeasureDrafters(const DrafterSetting& setting, int warm_up, int texts,
                              uint64_t seed) {
  std::mt19937_64 random(seed);
  CommonDrafters common;
  double tokens = 0, seconds = 0, best_by_text = 0;
  std::vector<double> alone(setting.drafters.size());
  DrafterSpeeds speeds;
  for (int i = -warm_up; i < texts; ++i) {
    const SimulatedText& text = setting.texts[(i + warm_up) % setting.texts.size()];
    const Run run = Decode(setting, text, common, random);
    if (i < 0) continue;
    tokens += Tokens(text);
    seconds += run.seconds;
    speeds.most_switches += static_cast<double>(run.switches) / texts;
    double least = 1e9;
    for (size_t d = 0; d < alone.size(); ++d) {
      alone[d] += Seconds(setting, text, d);
      least = std::min(least, Seconds(setting, text, d));
    }
    best_by_text += least;
  }
  for (double one : alone) speeds.alone.push_back(tokens / one);
  speeds.best_by_text = tokens / best_by_text;
  speeds.chosen = tokens / seconds;
  return speeds;
}

std::vector<DrafterSetting> DrafterGrid() {
  std::vector<DrafterSetting> grid;
  for (double model : {0.5e-3, 1.5e-3, 4e-3}) {
    for (double opening : {1e-3, 20e-3}) {
      for (uint32_t tokens : {64u, 256u, 1024u}) {
        for (size_t more : {size_t{0}, size_t{4}}) {
          const auto add = [&](const char* what, std::vector<SimulatedText> texts) {
            grid.push_back(
                {absl::StrFormat("%s, %d tokens, model %.1f ms a token, opening %.0f ms, "
                                 "%d of no use",
                                 what, tokens, model * 1e3, opening * 1e3, more),
                 Drafters(model, opening, more), std::move(texts)});
          };
          const Stretch prose = Of(0.7, 0.1, 0.3, more, tokens);
          const Stretch copy = Of(0.6, 0.9, 0.2, more, tokens);
          const Stretch code = Of(0.5, 0.4, 0.65, more, tokens);
          add("prose", {{prose}});
          add("copies", {{copy}});
          add("mixed", {{prose}, {copy}, {code}, {copy}, {prose}, {code}});
          if (tokens < 256) continue;
          const auto half = [](Stretch stretch) {
            stretch.tokens /= 2;
            return stretch;
          };
          add("changing", {{half(prose), half(copy)}, {half(copy), half(code)}});
        }
      }
    }
  }
  return grid;
}

}  // namespace tandem::orchestrator
