#include "common/theory/speedup.h"

#include <cmath>
#include <limits>

#include "common/base/check.h"

namespace tandem::theory {
namespace {

void CheckAlpha(double alpha) { TANDEM_CHECK(alpha >= 0 && alpha <= 1) << "alpha " << alpha; }

void CheckRatio(double ratio) { TANDEM_CHECK(ratio >= 0) << "ratio " << ratio; }

}  // namespace

double ExpectedTokens(double alpha, double gamma) {
  CheckAlpha(alpha);
  TANDEM_CHECK(gamma >= 0) << "gamma " << gamma;
  if (gamma == 0 || alpha == 1) return gamma + 1;
  // Not 1 - pow(): that loses all digits where alpha is close to 1.
  return -std::expm1((gamma + 1) * std::log(alpha)) / (1 - alpha);
}

double Speedup(double alpha, int gamma, double c) {
  CheckRatio(c);
  return ExpectedTokens(alpha, gamma) / (gamma * c + 1);
}

bool CanSpeedUp(double alpha, double c) {
  CheckAlpha(alpha);
  CheckRatio(c);
  return alpha > c;
}

double MinBestSpeedup(double alpha, double c) {
  CheckAlpha(alpha);
  CheckRatio(c);
  return (1 + alpha) / (1 + c);
}

double OperationsFactor(double alpha, int gamma, double c_hat) {
  CheckRatio(c_hat);
  return (gamma * c_hat + gamma + 1) / ExpectedTokens(alpha, gamma);
}

double ReadsSaved(double alpha, int gamma, double draft_reads) {
  CheckRatio(draft_reads);
  return ExpectedTokens(alpha, gamma) / (1 + gamma * draft_reads);
}

int OptimalGamma(double alpha, double c, int max_gamma) {
  TANDEM_CHECK(max_gamma >= 0) << "max_gamma " << max_gamma;
  int best = 0;
  double max = 1;
  for (int gamma = 1; gamma <= max_gamma; ++gamma) {
    const double speedup = Speedup(alpha, gamma, c);
    if (speedup <= max) continue;
    max = speedup;
    best = gamma;
  }
  return best;
}

double SpeedupBound(double alpha) {
  CheckAlpha(alpha);
  return alpha == 1 ? std::numeric_limits<double>::infinity() : 1 / (1 - alpha);
}

double OracleSpeedup(double alpha, double c) {
  CheckAlpha(alpha);
  CheckRatio(c);
  if (c >= 1) return 1;
  const double time = 1 - alpha * (1 - c);
  return time == 0 ? std::numeric_limits<double>::infinity() : 1 / time;
}

}  // namespace tandem::theory
