#include "tests/orchestrator/draft/length_simulation.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <random>
#include <utility>

#include "absl/time/time.h"
#include "common/scheduling/cost_curve.h"
#include "target_service/passes/pass_policy.h"

namespace tandem::orchestrator {
namespace {

constexpr uint32_t kTextTokens = 64;
constexpr int kMaxPassRows = 512;
constexpr double kGather = 0.2;
constexpr double kJitter = 0.04;

struct Sequence {
  std::unique_ptr<LengthPolicy> policy;
  uint32_t tokens_left = 0;
  bool first = true;
  RoundRecord round;
  double began = 0, drafting = 0, draft_began = 0, submitted = 0, answered = -1, prefill = 0;
  double turnaround = 1e9;
  uint32_t draft = 0;
  uint32_t prompt = 0;  // rows that are still to be read
};

class Simulation {
 public:
  Simulation(const SimulatedSetting& setting, const MakeLength& make, uint64_t seed)
      : setting_(setting),
        make_(make),
        random_(seed),
        weather_(seed),
        sequences_(setting.sequences) {
    for (int rows = 1; rows <= kMaxPassRows; rows *= 2) {
      curve_.Observe(rows, absl::Seconds(PassSeconds(setting_, rows)));
    }
  }

  double Run(uint64_t warm_up, uint64_t rounds) {
    for (size_t i = 0; i < sequences_.size(); ++i) {
      Renew(sequences_[i]);
      At(Uniform() * 1e-4, [this, i] { Begin(i); });
    }
    double began = 0;
    double tokens = 0;
    while (rounds_ < warm_up + rounds) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      event.act();
      if (rounds_ < warm_up) {
        began = now_;
        tokens = tokens_;
      }
    }
    return (tokens_ - tokens) / (now_ - began);
  }

 private:
  struct Event {
    double at;
    uint64_t order;
    std::function<void()> act;
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  void At(double at, std::function<void()> act) {
    events_.push({at, next_event_++, std::move(act)});
  }
  double Uniform() { return std::uniform_real_distribution<double>(0, 1)(random_); }
  double Jittered(double seconds) { return seconds * (1 + kJitter * (2 * Uniform() - 1)); }

  // How much slower than usual the machine is now. It does not depend on what is asked of the
  // machine.
  double Slowness() {
    while (now_ >= slowness_until_) {
      slowness_ = std::exp(setting_.noise * std::normal_distribution<double>()(weather_));
      slowness_until_ += setting_.noise_lasts * std::exponential_distribution<double>()(weather_);
    }
    return slowness_;
  }

  double Expected(uint32_t draft) const {
    double tokens = 1;
    double all = 1;
    for (uint32_t i = 0; i < draft; ++i) tokens += all *= setting_.alpha;
    return tokens;
  }

  uint32_t StreamOf(size_t i) const { return static_cast<uint32_t>(i) % setting_.streams; }
  bool Compete() const { return setting_.streams > 1; }

  // As target_service/passes/load_reports.cc says it.
  DecodingLoad Decoding() const {
    const auto aimed = static_cast<uint32_t>(policy_.RowsAimedAt(curve_, Compete()));
    const auto rounds = static_cast<uint32_t>(target_service::PassPolicy::MinRounds(Compete()));
    return {setting_.sequences, aimed, rounds, draft_tokens_};
  }

  void Renew(Sequence& sequence) {
    sequence.policy = make_(StreamOf(static_cast<size_t>(&sequence - sequences_.data())));
    sequence.tokens_left = setting_.prompt > 0
                               ? kTextTokens
                               : kTextTokens / 2 + static_cast<uint32_t>(Uniform() * kTextTokens);
    sequence.first = true;
    sequence.prompt = setting_.prompt;
  }

  void Begin(size_t i) {
    Sequence& sequence = sequences_[i];
    sequence.round = {};
    sequence.began = now_;
    sequence.draft = 0;
    sequence.drafting = 0;
    if (!std::exchange(sequence.first, false)) {
      const auto pass_time = [this](uint32_t rows) {
        return setting_.contention > 0 ? curve_.Estimate(static_cast<int>(rows))
                                       : absl::Seconds(PassSeconds(setting_, rows));
      };
      const LengthChoice choice =
          sequence.policy->Next({.pass_time = pass_time, .decoding = Decoding()});
      sequence.round.choice = choice;
      sequence.draft = std::min(choice.tokens, sequence.tokens_left - 1);
    }
    sequence.round.asked_tokens = sequence.draft;
    if (sequence.draft == 0) {
      sequence.round.cause = PlainCause::kPolicyZero;
      return Submit(i);
    }
    sequence.draft_began = now_;
    At(now_ + Jittered(setting_.draft_round_trip / 2), [this, i] {
      at_draft_.push_back(i);
      sequences_[i].draft_began = now_;
      Draft();
    });
  }

  // All that wait are drafted together; each has its block when its own length is done.
  void Draft() {
    if (drafting_ || at_draft_.empty() || (setting_.shared_cores && passing_)) return;
    drafting_ = drafted_ = true;
    const std::vector<size_t> batch = std::exchange(at_draft_, {});
    const double step = setting_.draft_token *
                        PassSeconds(setting_, static_cast<double>(batch.size())) /
                        PassSeconds(setting_, 1);
    uint32_t longest = 0;
    const double jitter = Jittered(Slowness());
    for (size_t i : batch) {
      Sequence& sequence = sequences_[i];
      longest = std::max(longest, sequence.draft);
      const double done = now_ + sequence.draft * step * jitter;
      sequence.drafting = done - sequence.draft_began;
      At(done + Jittered(setting_.draft_round_trip / 2), [this, i] { Submit(i); });
    }
    At(now_ + longest * step * jitter, [this] {
      drafting_ = false;
      Draft();
      Pass();
    });
  }

  void Submit(size_t i) {
    sequences_[i].submitted = now_;
    At(now_ + Jittered(setting_.target_round_trip / 2), [this, i] {
      Sequence& sequence = sequences_[i];
      sequence.turnaround = sequence.answered < 0 ? 1e9 : now_ - sequence.answered;
      if (sequence.turnaround <= back_within_ && expected_ > 0) --expected_;
      sequence.prefill = Prefill();
      waiting_.push_back(i);
      Pass();
    });
  }

  void Pass() {
    if (passing_ || waiting_.empty() || (setting_.shared_cores && drafting_)) return;
    std::vector<target_service::WaitingRows> rows_waiting;
    int all = 0;
    for (size_t i : waiting_) {
      rows_waiting.push_back({.stream = base::StreamId{1 + StreamOf(i)},
                              .sequence = base::SequenceId{1 + i},
                              .verify = static_cast<int>(sequences_[i].draft + 1)});
      all += rows_waiting.back().verify;
    }
    const bool has_room = all < policy_.RowsAimedAt(curve_, Compete());
    if (expected_ > 0 && now_ < until_ && has_room) return;  // the alarm of PassEnded comes
    expected_ = 0;
    passing_ = true;
    std::vector<size_t> batch;
    for (const auto& grant :
         policy_.FormPass(rows_waiting, curve_, static_cast<int>(setting_.streams))) {
      batch.push_back(waiting_[grant.index]);
    }
    std::erase_if(waiting_, [&](size_t i) { return std::ranges::count(batch, i) > 0; });
    uint32_t rounds = 0, prompts = 0;
    for (size_t i : batch) {
      rounds += sequences_[i].draft + 1;
      prompts += std::exchange(sequences_[i].prompt, 0);
    }
    const uint32_t rows = rounds + prompts;
    const bool contended = std::exchange(drafted_, false);
    const double took = Jittered(Slowness() * PassSeconds(setting_, rows) *
                                 (1 + (contended ? setting_.contention : 0)));
    pass_began_ = now_;
    prefill_share_ = 1 - PassSeconds(setting_, rounds) / PassSeconds(setting_, rows);
    At(now_ + took, [this, batch, rows, took] { PassEnded(batch, rows, took); });
  }

  // What passes have taken for prompts until now.
  double Prefill() const {
    return prefill_ + (passing_ ? prefill_share_ * (now_ - pass_began_) : 0);
  }

  void PassEnded(const std::vector<size_t>& batch, uint32_t rows, double took) {
    prefill_ = Prefill();
    passing_ = false;
    if (setting_.contention > 0) curve_.Observe(static_cast<int>(rows), absl::Seconds(took));
    back_within_ = kGather * took;
    until_ = now_ + back_within_;
    expected_ = 0;
    for (size_t i : batch) {
      Sequence& sequence = sequences_[i];
      if (sequence.turnaround <= back_within_) ++expected_;
      sequence.answered = now_;
      target_service::AverageDraftTokens(sequence.draft, setting_.sequences, draft_tokens_);
      sequence.round.stages.device = absl::Seconds(took);
      sequence.round.pass_rows = rows;
      sequence.round.prefill = absl::Seconds(prefill_ - sequence.prefill);
      sequence.round.pass_sequences = static_cast<uint32_t>(batch.size());
      At(now_ + Jittered(setting_.target_round_trip / 2), [this, i] { Decide(i); });
    }
    At(until_, [this] { Pass(); });
    Draft();
    Pass();
  }

  void Decide(size_t i) {
    Sequence& sequence = sequences_[i];
    RoundRecord& round = sequence.round;
    uint32_t accepted = 0;
    while (accepted < sequence.draft && Uniform() < setting_.alpha) ++accepted;
    round.draft_tokens = sequence.draft;
    round.accepted_tokens = accepted;
    round.tokens = accepted + 1;
    round.began = concurrency::Instant() + absl::Seconds(sequence.began);
    round.decided = concurrency::Instant() + absl::Seconds(now_);
    round.stages.draft = absl::Seconds(sequence.drafting);
    const double network =
        setting_.target_round_trip + (sequence.draft > 0 ? setting_.draft_round_trip : 0);
    round.stages.network = absl::Seconds(network);
    sequence.policy->Observe(round);
    ++rounds_;
    tokens_ += Expected(sequence.draft);
    if (sequence.tokens_left <= round.tokens) {
      Renew(sequence);
    } else {
      sequence.tokens_left -= round.tokens;
    }
    Begin(i);
  }

  const SimulatedSetting& setting_;
  const MakeLength& make_;
  target_service::PassPolicy policy_{{.max_rows = kMaxPassRows}};
  scheduling::CostCurve curve_{kMaxPassRows};
  double draft_tokens_ = 0;  // per round, on average
  std::mt19937_64 random_, weather_;
  std::vector<Sequence> sequences_;
  std::priority_queue<Event> events_;
  uint64_t next_event_ = 0;
  double now_ = 0;
  std::vector<size_t> at_draft_, waiting_;
  bool drafting_ = false, passing_ = false, drafted_ = false;
  double pass_began_ = 0, prefill_ = 0, prefill_share_ = 0;  // of the pass: a share of its time
  double back_within_ = 0, until_ = 0;
  size_t expected_ = 0;
  double slowness_ = 1, slowness_until_ = 0;
  uint64_t rounds_ = 0;
  double tokens_ = 0;  // expected ones: what was drawn would only add noise
};

}  // namespace

double PassSeconds(const SimulatedSetting& setting, double rows) {
  const auto& points = setting.pass;
  if (rows <= points.front().first) return points.front().second;
  for (size_t i = 1; i < points.size(); ++i) {
    const auto& [r0, t0] = points[i - 1];
    const auto& [r1, t1] = points[i];
    if (rows <= r1) return t0 + (t1 - t0) * (rows - r0) / (r1 - r0);
  }
  return points.back().second * rows / points.back().first;
}

double SimulatedSpeed(const SimulatedSetting& setting, const MakeLength& make, uint64_t warm_up,
                      uint64_t rounds, uint64_t seed) {
  return Simulation(setting, make, seed).Run(warm_up, rounds);
}

}  // namespace tandem::orchestrator
