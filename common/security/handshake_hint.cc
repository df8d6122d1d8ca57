#include "common/security/handshake_hint.h"

#include "absl/strings/match.h"

namespace tandem::security {

absl::string_view HandshakeHint(absl::string_view reason) {
  struct Known {
    absl::string_view part;
    absl::string_view hint;
  };
  // The first that fits. OpenSSL's words, its alerts' (what the other side says of us), gRPC's.
  static constexpr Known kKnown[] = {
      {"did not return a certificate",
       "the caller showed no certificate, and the server asks for one: give the caller a "
       "certificate "
       "and its key (tandem: --tls-certificate, --tls-key; an orchestrator towards its peers: "
       "--peer-tls-certificate, --peer-tls-key)"},
      {"certificate verify failed",
       "the other side's certificate has expired, or is of an authority that the CA file here does "
       "not have: renew it, or add its authority; `openssl x509 -noout -issuer -enddate -in FILE` "
       "tells which"},
      {"Hostname Verification Check failed",
       "the server's certificate lacks the name it was asked for: make one that has it "
       "(scripts/certs --names=DNS:NAME), or ask for a name it has (--tls-server-name, "
       "--peer-tls-server-name)"},
      {"wrong version number",
       "one side speaks TLS and the other plaintext: give both their TLS flags, or neither"},
      {"http request",
       "one side speaks TLS and the other plaintext: give both their TLS flags, or neither"},
      {"http1.x server",
       "the port speaks HTTP/1.1: take the gRPC port (an orchestrator's --listen, not its "
       "--http-listen)"},
      {"Expected SETTINGS frame",
       "the port does not speak HTTP/2: take the gRPC port (--listen of the service)"},
      {"missing selected ALPN property",
       "the port speaks TLS and HTTP/1.1: take the gRPC port (an orchestrator's --listen, not its "
       "--http-listen)"},
      {"alert certificate expired",
       "the other side says that the certificate here has expired: renew it"},
      {"alert unknown ca",
       "the other side does not know the authority of the certificate here: add it to its CA file"},
  };
  for (const Known& known : kKnown) {
    if (absl::StrContains(reason, known.part)) return known.hint;
  }
  return "";
}

}  // namespace tandem::security
