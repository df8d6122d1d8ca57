#include "tests/deploy/pod.h"

#include <signal.h>

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tests/deploy/probe.h"

namespace tandem::testing {
namespace {

constexpr absl::Duration kProbeEvery = absl::Milliseconds(500);
constexpr absl::Duration kProbeTimeout = absl::Seconds(2);
constexpr int kFailuresUntilNotReady = 2;

std::vector<std::string> Flags(const PodSpec& spec, const std::string& address) {
  std::vector<std::string> flags = spec.flags;
  flags.push_back(absl::StrCat("--listen=", address, ":", spec.port));
  flags.push_back(absl::StrCat("--admin-listen=", address, ":", spec.admin_port));
  return flags;
}

}  // namespace

std::string SinceStart() {
  static const absl::Time start = absl::Now();
  return absl::StrFormat("[%6.1f s]", absl::ToDoubleSeconds(absl::Now() - start));
}

void Say(const std::string& what) {
  absl::PrintF("%s %s\n", SinceStart(), what);
  std::fflush(stdout);
}

Pod::Pod(PodSpec spec, std::string name, std::string address)
    : spec_(std::move(spec)),
      name_(std::move(name)),
      address_(std::move(address)),
      process_(spec_.binary, Flags(spec_, address_), "port_file") {
  Tell("is started");
}

void Pod::Tell(const std::string& what) const {
  Say(absl::StrCat(name_, " (", address_, ") ", what));
}

void Pod::Tick() {
  if (gone_) return;
  if (!process_.Running()) return Ended();
  if (deleted()) return EndIt();
  if (absl::Now() < next_probe_) return;
  ProbeIt();
  next_probe_ = absl::Now() + kProbeEvery;
}

void Pod::ProbeIt() {
  const std::string admin = absl::StrCat(address_, ":", spec_.admin_port);
  if (!started_) {
    started_ = Probe(admin, "liveness", kProbeTimeout);
    if (!started_) return;
  }
  if (Probe(admin, "", kProbeTimeout)) {
    not_ready_ = 0;
    if (ready_since_ != absl::InfiniteFuture()) return;
    ready_since_ = absl::Now();
    return Tell("is ready");
  }
  if (++not_ready_ < kFailuresUntilNotReady || ready_since_ == absl::InfiniteFuture()) return;
  ready_since_ = absl::InfiniteFuture();
  Tell("is not ready any more");
}

void Pod::Delete() {
  if (deleted() || gone_) return;
  deleted_at_ = absl::Now();
  Tell("is deleted: no endpoint from now on");
}

void Pod::EndIt() {
  const absl::Duration since = absl::Now() - deleted_at_;
  if (!told_ && since >= spec_.pre_stop) {
    told_ = true;
    process_.Signal(SIGTERM);
    Tell("gets SIGTERM");
  }
  if (since < spec_.termination_grace) return;
  problems_.push_back(absl::StrCat(name_, " did not end within ",
                                   absl::FormatDuration(spec_.termination_grace), ":\n", Output()));
  process_.Kill();
}

void Pod::Ended() {
  gone_ = true;
  const int code = process_.Wait();
  Tell(absl::StrCat("is gone, with code ", code));
  if (!problems_.empty()) return;
  if (!deleted() || code != 0) {
    problems_.push_back(absl::StrCat(name_, " ended ", deleted() ? "" : "by itself, ", "with ",
                                     code, ":\n", Output()));
  }
}

}  // namespace tandem::testing
