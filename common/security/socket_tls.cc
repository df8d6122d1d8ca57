#include "common/security/socket_tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "common/security/openssl_handles.h"

namespace tandem::security {
namespace {

using Context = std::unique_ptr<SSL_CTX, FreeWith<SSL_CTX_free>>;

Certificate Next(BIO* bio) {
  return Certificate(PEM_read_bio_X509(bio, nullptr, nullptr, nullptr));
}

bool UseIdentity(const ServerIdentity& identity, SSL_CTX* context) {
  const Bio certificates = Reader(identity.certificate);
  const Bio keys = Reader(identity.key);
  const Certificate first = Next(certificates.get());
  const Key key(PEM_read_bio_PrivateKey(keys.get(), nullptr, nullptr, nullptr));
  if (first == nullptr || key == nullptr || SSL_CTX_use_certificate(context, first.get()) != 1 ||
      SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
    return false;
  }
  while (const Certificate between = Next(certificates.get())) {
    if (SSL_CTX_add1_chain_cert(context, between.get()) != 1) return false;
  }
  ERR_clear_error();  // the end of the file counts as one
  return true;
}

bool UseAuthorities(const std::string& authorities, SSL_CTX* context) {
  const Bio certificates = Reader(authorities);
  while (const Certificate authority = Next(certificates.get())) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) != 1 ||
        SSL_CTX_add_client_CA(context, authority.get()) != 1) {
      return false;
    }
  }
  ERR_clear_error();
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return true;
}

// A client that offers HTTP/2 as well is told that this port speaks HTTP/1.1.
int SelectProtocol(SSL* /*connection*/, const unsigned char** out, unsigned char* out_size,
                   const unsigned char* offered, unsigned int offered_size, void* /*unused*/) {
  static constexpr char kOurs[] = "http/1.1";
  constexpr unsigned int kSize = sizeof(kOurs) - 1;
  for (unsigned int at = 0; at < offered_size; at += 1 + offered[at]) {
    if (offered[at] != kSize || at + kSize >= offered_size ||
        std::memcmp(offered + at + 1, kOurs, kSize) != 0) {
      continue;
    }
    *out = offered + at + 1;
    *out_size = kSize;
    return SSL_TLSEXT_ERR_OK;
  }
  return SSL_TLSEXT_ERR_NOACK;
}

Context MakeContext(const ServerIdentity& identity) {
  Context context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr || SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1 ||
      !UseIdentity(identity, context.get()) ||
      (!identity.authorities.empty() && !UseAuthorities(identity.authorities, context.get()))) {
    return nullptr;
  }
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                         SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  // A session that is taken up again would skip the look at the client's certificate.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_alpn_select_cb(context.get(), SelectProtocol, nullptr);
  return context;
}

}  // namespace

void FreeTls::operator()(ssl_st* connection) const { SSL_free(connection); }

absl::StatusOr<std::unique_ptr<SocketTls>> SocketTls::Create(const TlsServerOptions& options) {
  TANDEM_RETURN_IF_ERROR(options.Validate());
  TANDEM_CHECK(options.enabled());
  TANDEM_ASSIGN_OR_RETURN(ServerFiles* const files, ServerFiles::Keep(options));
  std::unique_ptr<SocketTls> tls(new SocketTls(files));
  tls->Renew();
  if (tls->context_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(options.certificate, ": OpenSSL cannot serve with it and ", options.key));
  }
  return tls;
}

SocketTls::~SocketTls() { SSL_CTX_free(context_); }

// Connections keep the context that they were made with.
void SocketTls::Renew() {
  std::shared_ptr<const ServerIdentity> identity = files_->Current();
  if (identity == identity_) return;
  identity_ = identity;
  Context context = MakeContext(*identity);
  if (context == nullptr) {
    ERR_clear_error();
    TANDEM_LOG(kError) << base::LogFields("certificate_kept")
                              .Add("reason", "OpenSSL cannot serve with the new one");
    return;
  }
  SSL_CTX_free(std::exchange(context_, context.release()));
}

TlsConnection SocketTls::Accept(int socket) {
  Renew();
  TlsConnection connection(SSL_new(context_));
  if (connection == nullptr || SSL_set_fd(connection.get(), socket) != 1) return nullptr;
  SSL_set_accept_state(connection.get());
  return connection;
}

}  // namespace tandem::security
