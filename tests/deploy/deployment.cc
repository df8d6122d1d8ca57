#include "tests/deploy/deployment.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace tandem::testing {

Deployment::Deployment(DeploymentSpec spec, Names& names, std::function<std::string()> next_address)
    : spec_(std::move(spec)),
      names_(names),
      next_address_(std::move(next_address)),
      replicas_(spec_.replicas) {}

bool Deployment::IsAvailable(const Pod& pod) const {
  return pod.ready() && absl::Now() - pod.ready_since() >= spec_.min_ready;
}

int Deployment::Available() const {
  return static_cast<int>(std::count_if(pods_.begin(), pods_.end(),
                                        [this](const auto& pod) { return IsAvailable(*pod); }));
}

bool Deployment::Settled() const {
  for (size_t i = 0; i < pods_.size(); ++i) {
    if (!pods_[i]->gone() && (IsOld(i) || !IsAvailable(*pods_[i]))) return false;
  }
  return Available() == replicas_;
}

void Deployment::Tick() {
  for (const auto& pod : pods_) pod->Tick();
  UpdateEndpoints();
  Start();
  DeleteOld();
  DeleteTooMany();
  UpdateEndpoints();
}

void Deployment::Start() {
  int alive = 0;
  int fresh = 0;
  for (size_t i = 0; i < pods_.size(); ++i) {
    if (pods_[i]->deleted() || pods_[i]->gone()) continue;
    ++alive;
    if (!IsOld(i)) ++fresh;
  }
  for (; fresh < replicas_ && alive < replicas_ + spec_.max_surge; ++fresh, ++alive) {
    pods_.push_back(std::make_unique<Pod>(
        spec_.pod, absl::StrCat(spec_.name, "-", pods_.size() + 1), next_address_()));
    generations_.push_back(generation_);
  }
}

// A pod that is not ready serves nobody; of the others so many stay as must.
void Deployment::DeleteOld() {
  int spare = Available() - (replicas_ - spec_.max_unavailable);
  for (size_t i = 0; i < pods_.size(); ++i) {
    Pod& pod = *pods_[i];
    if (!IsOld(i) || pod.deleted() || pod.gone()) continue;
    if (IsAvailable(pod) && --spare < 0) continue;
    pod.Delete();
  }
}

// The youngest go.
void Deployment::DeleteTooMany() {
  int too_many = -replicas_;
  for (size_t i = 0; i < pods_.size(); ++i) {
    if (!IsOld(i) && !pods_[i]->deleted() && !pods_[i]->gone()) ++too_many;
  }
  for (size_t i = pods_.size(); i-- > 0 && too_many > 0;) {
    if (IsOld(i) || pods_[i]->deleted() || pods_[i]->gone()) continue;
    pods_[i]->Delete();
    --too_many;
  }
}

void Deployment::UpdateEndpoints() {
  std::vector<std::string> endpoints;
  for (const auto& pod : pods_) {
    if (pod->ready()) endpoints.push_back(pod->address());
  }
  if (endpoints == endpoints_) return;
  names_.Set(spec_.name, endpoints);
  endpoints_ = std::move(endpoints);
}

}  // namespace tandem::testing
