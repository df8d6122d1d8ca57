// What trials have shown of the rounds of each shape, and what the others will take by that and by a model
// (length_search.h). Below, "length" stands for the shape.
//
// What is kept is the logarithm of a round's time against an origin that all lengths share. Only differences count, so it
// stays true while all lengths get slower alike. Trials of a length are averaged by their errors: what was known drifts
// from trial to trial, and what is new counts by how exact it is (a Kalman filter of one value).
//
// Plain value, not thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "orchestrator/draft/length/round_model.h"

namespace tandem::orchestrator {

class TriedShapes {
 public:
  struct Tried {
    double time = 0;      // of a round, the logarithm
    double error = 0;     // standard deviation of it
    uint32_t trials = 0;  // so far
    uint32_t fails = 0;   // of the last of them, those that changed nothing
    uint32_t open = 0;    // and those that left it open
    double since = 1e9;   // phases since the last one
    double cost = 0;      // of the last one, in phases of the best length
    double took = 0;      // the last one and the rounds after it, in phases
    bool left = false;    // it was the best length, and has not been tried since

    // A trial has measured `measured`, with the standard deviation `error`.
    void Blend(double measured, double error, double max_weight);
  };
  Tried& operator[](uint32_t length) { return shapes_[length]; }
  const Tried& operator[](uint32_t length) const { return shapes_[length]; }

  void PhaseEnded();
  // What is known of all but these two holds no more.
  void ForgetAllBut(uint32_t one, uint32_t other);
  // Trials compare with the best length. So from now on its error is that of the others: left where it is, an error
  // that came with a change would never get smaller, and stand against any other length.
  void Anchor(uint32_t best);
  // What has failed did so beside another length. It is tried again as if that had been rare.
  void ForgiveFails();

  // The times of rounds: measured where there were trials, by the model in between. Only ratios count. `model`: estimates
  // of all lengths, of which only ratios count either.
  ByShape Times(const ByShape& model, uint32_t best) const;
  // How much better a length may be than it seems, in the logarithm.
  double Bonus(uint32_t length) const;

 private:
  // a + b x model, by least squares over the tried lengths, a and b not below 0. The model may be wrong
  // by any factor in what a round costs and in what a token adds.
  ByShape Fitted(const ByShape& model) const;
  // The model's ratio to the nearest tried lengths of the same kind, below and above. Where there is none: to the
  // best length so far. The logarithm.
  double Untried(uint32_t length, uint32_t best, const ByShape& fitted) const;

  std::array<Tried, kShapes> shapes_{};
};

}  // namespace tandem::orchestrator
