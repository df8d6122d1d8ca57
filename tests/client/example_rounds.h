// Rounds as an orchestrator may have sent them.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::client {

// In microseconds, in the order of kStages.
struct StageTimes {
  uint64_t draft, network, slot, queue, device, own;
};

inline v1::RoundRecord RoundOf(uint32_t number, uint64_t began_us, const StageTimes& times) {
  v1::RoundRecord round;
  round.set_number(number);
  round.set_began_us(began_us);
  v1::Stages& stages = *round.mutable_stages();
  stages.set_draft_us(times.draft);
  stages.set_network_us(times.network);
  stages.set_slot_us(times.slot);
  stages.set_queue_us(times.queue);
  stages.set_device_us(times.device);
  stages.set_own_us(times.own);
  round.set_tokens(1);
  round.set_pass_id(100 + number);
  round.set_pass_sequences(1);
  return round;
}

inline void Drafted(uint32_t drafted, uint32_t accepted, v1::RoundRecord& round) {
  round.set_draft_tokens(drafted);
  round.set_accepted_tokens(accepted);
  round.set_tokens(accepted + 1);
}

// A request of 12 tokens in 5 rounds: the prompt; a rejection after a wait for a slot; a block that
// stands whole; a late draft; and one past whose end the text has no tokens.
inline std::vector<v1::RoundRecord> FiveRounds() {
  std::vector<v1::RoundRecord> rounds = {RoundOf(0, 400, {0, 8000, 0, 2000, 10'000, 0}),
                                         RoundOf(1, 20'500, {3000, 5000, 2000, 1000, 4000, 1000}),
                                         RoundOf(2, 36'600, {2000, 4000, 0, 500, 3500, 0}),
                                         RoundOf(3, 46'700, {6000, 4000, 0, 1000, 3000, 0}),
                                         RoundOf(4, 60'800, {2500, 4000, 0, 500, 3000, 250})};
  rounds[0].set_cause("first-round");
  Drafted(4, 2, rounds[1]);
  rounds[1].set_pass_sequences(3);
  Drafted(4, 4, rounds[2]);
  rounds[2].set_pass_sequences(12);
  rounds[3].set_cause("draft-late");
  Drafted(3, 3, rounds[4]);
  rounds[4].set_tokens(2);
  return rounds;
}

// `count` rounds of 10 ms, but that every 50th takes `slow_us`.
inline std::vector<v1::RoundRecord> ManyRounds(uint32_t count, uint64_t slow_us) {
  std::vector<v1::RoundRecord> rounds;
  uint64_t at = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const bool slow = i % 50 == 49;
    rounds.push_back(RoundOf(i, at, {2000, slow ? slow_us - 8000 : 2000, 0, 0, 6000, 0}));
    Drafted(4, i % 5, rounds.back());
    at += slow ? slow_us : 10'000;
  }
  return rounds;
}

// Escape codes as a person can read them: {36} a colour, {36/32} one on another, {} the end.
inline std::string Readable(const std::string& text) {
  std::string readable;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b') {
      readable += text[i];
      continue;
    }
    const size_t end = text.find('m', i);
    const std::string code = text.substr(i + 2, end - i - 2);
    readable += "{" +
                absl::StrReplaceAll(code == "0"   ? ""
                                    : code == "1" ? "bold"
                                    : code == "2" ? "dim"
                                                  : code,
                                    {{";48;5;", "/"}, {"38;5;", ""}}) +
                "}";
    i = end;
  }
  return readable;
}

}  // namespace tandem::client
