// Finds the shape of a block (draft_shapes.h) with the most tokens a time, for sequences that share a target
// and a load. It is a search by trial: a model says where to look, and measured rounds decide. Below, "length"
// stands for the shape: a chain is its length, and chains that end by confidence and trees are further ones.
//
// Why trials. What a draft costs depends on how the sequences' rounds fall together at the target:
// who shares a pass, who waits for whom. That has several steady states, and no formula of the parts
// predicts which one comes. So all sequences take another length together for a moment, and their
// rounds say what it brings.
//
//   phase    rounds are measured of      then
//   kSteady  the best length so far      kTrial, if one is due; else kSteady
//   kTrial   another length              kAfter
//   kAfter   the best length again       the judgement, and kSteady
//
// A phase ends after so many rounds that each sequence has had some. A sequence's first rounds of a
// phase do not count: they still share passes with the phase before. A trial that is clearly worse
// ends early, unless its rounds are so uneven that its sequences may not have come into step yet: then
// it is measured anew. One that may be better goes on until it has forgotten how it began, and until
// its rounds are even. The trial is compared with the rounds before and after it, so a machine that
// slows down meanwhile does not decide. What is kept of a trial is the ratio to the best length, so
// it stays true while all lengths get slower alike.
//
// A sequence that is alone has nobody to come into step with. So its rounds of the trial and of the best length, if both
// have drafts, are in turn: two of each. What the machine does to both is left out by that, and a trial is several times
// as exact. Only the second of the two counts. The first pays for the length before it: while it runs, the tokens of that
// round are still written and sent. The trial lasts until it has decided, or is exact enough. Its first trial waits until
// its rounds get no faster: what has just started is slow.
//
// Several sequences leave out one phase before their first trial: those that have begun together share few passes.
//
// Where a few sequences are on a machine that is uneven by itself, the phases of the trial and of the best length go on in
// turn as well, until they have decided, or are exact enough, or have cost too much.
//
// How exact a trial is, is measured too: steady phases of one length, one after the other, differ by what the
// length has no part in, and so do those before and after a trial. Trials of a length are averaged by their errors (a
// Kalman filter of one value).
//
// What trials cost is bounded. It is counted with the tokens that their rounds have brought: these are fewer than
// estimated where drafts come late, because nobody had asked for any before. Rounds that end after their trial count, too.
// First trials may cost some phases together. A further trial of a length waits until the steady rounds since have earned
// it (trial_credit.h); but for the second one of one candidate, whose first may mislead. Trials of none pay from a
// credit of their own, and wait for nothing that others have cost. Several sequences earn half as much beside plain
// decoding where no other length is near it. The wait doubles with each trial of that length that
// changed nothing, and more often where it was clearly worse. It does not where the length seems better, but by less than
// the error. Beside plain decoding it grows with the time that the last trial took: with many sequences that is several
// phases, and more until they are in step again. None, one candidate, what the model takes for the best, and once each
// length that was the best are tried again whatever their trials have shown, because the machine may have been slow at
// that moment.
//
// Rounds that take twice as long all at once may be those of a draft that stands still for a moment, and whatever is tried
// then looks better. So there is no trial before they have gone on for some phases. Only then the draft or the target has
// changed, and what is known of other lengths is forgotten.
//
// A length is given up only for a gain of kGain or more, and of more than the error of the measurement; none at all only
// for more than 1.25 errors, and for none half of one suffices.
//
// Several sequences that leave plain decoding come into step with the draft in some rounds. So a trial beside it that
// looks worse is measured anew some times before it is believed. One that looks better, but by less than 1.25 errors, goes
// on until it has decided, where the machine is even: while it is no worse, it costs nothing.
//
// It sees counts and times. Not thread-safe. No clock.
#pragma once

#include <cstdint>

#include "orchestrator/draft/length/paired_rounds.h"
#include "orchestrator/draft/length/phase_times.h"
#include "orchestrator/draft/length/repeated_trials.h"
#include "orchestrator/draft/length/round_model.h"
#include "orchestrator/draft/length/trial_credit.h"
#include "orchestrator/draft/length/tried_shapes.h"

namespace tandem::orchestrator {

class LengthSearch {
 public:
  static constexpr double kNotOffered = 1e-9;  // tokens

  explicit LengthSearch(uint32_t first) : best_(first) {}

  // What a new round asks for, and the phase that it belongs to.
  uint32_t length() const { return is_trial() ? trial_ : best_; }
  uint64_t phase() const { return phase_number_; }
  // The best length so far. Sequences that begin take it as the length to come.
  uint32_t best() const { return best_; }
  bool is_trial() const { return phase_ == Phase::kTrial && (!in_turn_ || turn_ >= kRoundsInTurn); }

  struct Round {
    double seconds = 0;
    double tokens = 0;  // that it brought
    // That came, where they are not always as many as were asked for (paired_rounds.h).
    uint32_t candidates = 0;
  };
  // A round of the present phase and length ended, while `sequences` were decoded. Its time counts
  // unless it was one of the first of its sequence. Returns true if the phase has enough rounds now: call Advance.
  bool Observe(const Round& round, bool counts, uint32_t sequences);

  // A round of an earlier phase ended: it had that length. A trial's rounds may end long after it.
  void CountCost(const Round& round, uint32_t length);

  // Ends the phase. `tokens` and `times` are the estimates of tokens and of time for each length;
  // only ratios of the times count. A length that is not to be had has kNotOffered tokens. `token_errors`: standard
  // deviations of the estimates of tokens, relative.
  void Advance(const ByShape& tokens, const ByShape& times, uint32_t sequences,
               const ByShape& token_errors = {});

 private:
  enum class Phase : uint8_t { kSteady, kTrial, kAfter };

  static constexpr uint32_t kMinRounds = 24;       // of a phase
  static constexpr uint32_t kRoundsASequence = 3;  // of a phase
  static constexpr uint32_t kRoundsInTurn = 2;     // of one length
  static constexpr double kGain = 0.012;           // to change the length, in the logarithm
  static constexpr double kGainOfOne = 0.02;       // the same, after a single trial

  static uint32_t PhaseRounds(uint32_t sequences);
  void Begin(Phase phase);
  void Clear();
  bool ObserveInTurn(const Round& round, bool counts);
  // A trial that looks worse: its rounds are even, or it was measured anew often enough.
  bool MayBeGivenUp(double gain, uint32_t sequences) const;
  // Whether the trial seems better than none, and not by enough: to go on costs little then.
  bool IsTie(uint32_t sequences) const;
  double Gain() const;  // that the trial has shown so far, in the logarithm
  // The draft or the target has changed: what trials of other lengths have shown holds no more.
  void ForgetOthers();
  // Whether the best length's rounds take half or twice what they took.
  bool IsJump(double mean) const;
  void Jumped();
  // A phase of the first length ended, and what has just started may still get faster, or slower.
  void WarmUp(double mean, uint32_t sequences);
  // The first steady phases after a change are compared with those before it: what a trial saw may
  // have been how the new length begins, and not how it goes on.
  void Confirm(double mean);
  void CountNoise(double mean);
  double TrialError(double within) const;  // `within`: by how its own rounds differ
  double TokensError(uint32_t length) const;
  bool IsRepeated(uint32_t sequences) const;
  void Steady(const ByShape& tokens, const ByShape& times, uint32_t sequences);
  // `ratio`: logarithm of the trial's time against the best length's. `cost`: in phases of the best length, with
  // the tokens that were estimated; `lack`: of those of them that did not come, in phases, too.
  void EndTrial(const ByShape& tokens, const ByShape& times, double ratio, double error,
                double cost, double lack = 0);
  // Whether the credit suffices for a trial of the length.
  bool IsPaid(uint32_t length, const ByShape& values, const ByShape& times) const;
  // Whether the trial that ended left it open if its length is the better one.
  bool IsOpen(const ByShape& values) const;
  void Judge(const ByShape& values);
  // `model`: the shape that the model takes for the best.
  uint32_t NextTrial(const ByShape& values, const ByShape& times, uint32_t model,
                     uint32_t sequences) const;
  // Whether plain decoding is the best, and no other length is near.
  bool IsClear(const ByShape& values) const;
  double Wait(uint32_t length) const;
  // Tokens a time of each length, the logarithm.
  ByShape Values(const ByShape& tokens, const ByShape& times) const;

  uint32_t best_;
  uint32_t trial_ = 0;
  Phase phase_ = Phase::kSteady;
  uint64_t phase_number_ = 1;

  PhaseTimes times_;           // of the phase
  bool promising_ = false;     // the trial goes on
  uint32_t extensions_ = 0;    // how often it was found too uneven to end
  uint32_t restarts_ = 0;      // how often its rounds were counted anew
  bool in_turn_ = false;       // the trial's rounds and those of the best length are in turn:
  uint32_t turn_ = 0;          //   the next round, first those of the best length
  PairedRounds::Round first_;  //   the last one of that
  PairedRounds pairs_;
  RepeatedTrials repeats_;
  double more_tokens_ = 0;      // of the trial's round, logarithm of the ratio
  uint32_t since_jump_ = 1000;  // phases
  uint32_t jump_phases_ = 0;    // that a jump has lasted for
  bool is_warm_ = false;        // the first rounds are over
  uint32_t steady_ = 0;         // steady phases since before_ began anew
  double before_ = 0;           // mean time of the steady rounds before the trial
  double last_ = 0;             // mean time of the last steady phase; 0: of another length
  double noise_ = 0;            // variance of a steady phase's mean time, of its logarithm
  uint32_t noises_ = 0;
  double trial_time_ = 0;   // mean time of the trial
  double trial_error_ = 0;  // of it, relative
  double best_tokens_ = 1;  // of the best length's round, as estimated when the trial began
  // Time that the best length would have saved with the tokens that were estimated, and with those of them that did
  // not come.
  double trial_cost_ = 0, trial_lack_ = 0;
  uint32_t left_ = 0;  // the best length before, and the mean time of its rounds
  double left_time_ = 0;
  uint32_t confirms_ = 0;     // phases that are still compared with it
  TrialCredit credit_;        // charged with all trials
  TrialCredit plain_credit_;  // with those of none
  TriedShapes tried_;
  ByShape token_errors_{};  // of the last Advance
};

}  // namespace tandem::orchestrator
