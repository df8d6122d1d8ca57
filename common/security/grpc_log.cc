#include "common/security/grpc_log.h"

#include <grpc/support/log.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/concurrency/mutex.h"
#include "common/security/certificate_expiry.h"
#include "common/security/handshake_hint.h"

namespace tandem::security {
namespace {

constexpr absl::Duration kWindow = absl::Seconds(10);
constexpr int kMaxInWindow = 20;

class Limit {
 public:
  // Whether to say it; if so, how many were not said before.
  bool Pass(int64_t& unsaid) TANDEM_EXCLUDES(mutex_) {
    const absl::Time now = absl::Now();
    concurrency::MutexLock lock(mutex_);
    if (now - begin_ >= kWindow || now < begin_) {
      begin_ = now;
      said_ = 0;
    }
    if (said_ == kMaxInWindow) {
      ++unsaid_;
      return false;
    }
    ++said_;
    unsaid = std::exchange(unsaid_, 0);
    return true;
  }

 private:
  concurrency::Mutex mutex_;
  absl::Time begin_ TANDEM_GUARDED_BY(mutex_) = absl::InfinitePast();
  int said_ TANDEM_GUARDED_BY(mutex_) = 0;
  int64_t unsaid_ TANDEM_GUARDED_BY(mutex_) = 0;
};

// The text after `begin` and before `end`; empty when either is not there.
absl::string_view Between(absl::string_view text, absl::string_view begin, absl::string_view end) {
  const size_t from = text.find(begin);
  if (from == text.npos) return "";
  text.remove_prefix(from + begin.size());
  const size_t to = text.find(end);
  return to == text.npos ? "" : text.substr(0, to);
}

// A channel's line is "subchannel 0x… {address=ipv4:…, args={…}}: connect failed (UNKNOWN:… {…}),
// backing off …"; a server's is the reason alone.
// `expired`: which of our certificates are; the other side may have refused it, and does not always
// say so.
base::LogFields HandshakeLine(absl::string_view message, const std::string& expired) {
  base::LogFields line("handshake_failed");
  const absl::string_view reason = Between(message, "connect failed (", " {");
  const absl::string_view address = Between(message, "address=", ",");
  if (reason.empty() || address.empty()) {
    line.Add("reason", message);
  } else {
    line.Add("to", address).Add("reason", reason);
  }
  const absl::string_view hint = HandshakeHint(message);
  if (!hint.empty()) line.Add("hint", hint);
  if (!expired.empty()) line.Add("expired", expired);
  return line;
}

void Log(gpr_log_func_args* args) {
  const absl::string_view message = args->message;
  // Also after the handshake: the name in the certificate, which a verifier checks.
  const bool for_sure = absl::StrContains(message, "andshake") ||
                        absl::StrContains(message, "verification check failed");
  const bool connecting = absl::StrContains(message, "connect failed");
  std::string expired;
  if (for_sure || connecting) expired = CertificateExpiry::Get().Expired(absl::Now());
  // A server that refuses a client's certificate ends the connection; with TLS 1.3 the client has
  // done its handshake by then.
  const bool handshake = for_sure || (connecting && !expired.empty());
  if (!handshake && args->severity != GPR_LOG_SEVERITY_ERROR) return;
  // Strangers cause such lines, too: a name that nobody has is an error to gRPC.
  static Limit& limit = *new Limit;
  int64_t unsaid = 0;
  if (!limit.Pass(unsaid)) return;
  base::LogFields line =
      handshake ? HandshakeLine(message, expired) : base::LogFields("grpc").Add("message", message);
  if (unsaid > 0) line.Add("others", unsaid);
  TANDEM_LOG(kWarning) << line;
}

// For people who asked gRPC for its log by its own variables.
void LogAll(gpr_log_func_args* args) {
  const base::LogFields line = base::LogFields("grpc")
                                   .Add("severity", gpr_log_severity_string(args->severity))
                                   .Add("file", args->file)
                                   .Add("line", args->line)
                                   .Add("message", args->message);
  if (args->severity == GPR_LOG_SEVERITY_ERROR) {
    TANDEM_LOG(kWarning) << line;
  } else {
    TANDEM_LOG(kInfo) << line;
  }
}

}  // namespace

void TakeOverGrpcLog() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("GRPC_VERBOSITY") != nullptr) return gpr_set_log_function(&LogAll);
    gpr_set_log_function(&Log);
    gpr_set_log_verbosity(GPR_LOG_SEVERITY_INFO);
  });
}

}  // namespace tandem::security
