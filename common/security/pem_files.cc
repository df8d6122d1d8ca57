#include "common/security/pem_files.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/read_file.h"
#include "common/base/status_macros.h"
#include "common/security/openssl_handles.h"

namespace tandem::security {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;

absl::Status Unfit(const std::string& what, const std::string& path, absl::string_view problem) {
  return absl::FailedPreconditionError(absl::StrCat(what, " ", path, ": ", problem));
}

// An encrypted key is refused instead of asking on a terminal.
int NoPassword(char*, int, int, void*) { return -1; }

// All certificates of a text, in order; an error when one is broken.
absl::StatusOr<std::vector<Certificate>> Certificates(const std::string& what,
                                                      const std::string& path,
                                                      const std::string& text) {
  const Bio bio = Reader(text);
  std::vector<Certificate> certificates;
  ERR_clear_error();
  while (Certificate next{PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr)}) {
    certificates.push_back(std::move(next));
  }
  const auto error = ERR_peek_last_error();
  ERR_clear_error();
  const bool at_end =
      ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  if (!at_end) return Unfit(what, path, "has a broken certificate");
  if (certificates.empty()) return Unfit(what, path, "has no certificate in PEM");
  return certificates;
}

absl::Time ToTime(const ASN1_TIME* time) {
  std::tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::InfinitePast();
  return absl::FromTimeT(timegm(&parts));
}

absl::Status CheckPeriod(const std::string& what, const std::string& path, const X509& certificate,
                         absl::Time now) {
  const absl::Time from = ToTime(X509_get0_notBefore(&certificate));
  const absl::Time to = ToTime(X509_get0_notAfter(&certificate));
  const auto text = [](absl::Time time) { return absl::FormatTime(time, absl::UTCTimeZone()); };
  if (now > to) return Unfit(what, path, absl::StrCat("expired at ", text(to)));
  if (now < from) return Unfit(what, path, absl::StrCat("is not valid before ", text(from)));
  return absl::OkStatus();
}

std::string Subject(const X509& certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), X509_get_subject_name(&certificate), 0, XN_FLAG_RFC2253);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const std::string& what, const std::string& path) {
  absl::StatusOr<std::string> text = base::ReadRegularFile(path, kMaxFileBytes);
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat(what, " ", text.status().message()));
  }
  if (text->empty()) return absl::InvalidArgumentError(absl::StrCat(what, " ", path, ": is empty"));
  return text;
}

absl::StatusOr<Identity> ReadIdentity(const std::string& certificate_path,
                                      const std::string& key_path, absl::Time now) {
  Identity identity;
  identity.not_after = absl::InfiniteFuture();
  TANDEM_ASSIGN_OR_RETURN(identity.certificate, ReadSmallFile("TLS certificate", certificate_path));
  TANDEM_ASSIGN_OR_RETURN(identity.key, ReadSmallFile("TLS key", key_path));
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Certificate> chain,
                          Certificates("TLS certificate", certificate_path, identity.certificate));
  for (const Certificate& certificate : chain) {
    TANDEM_RETURN_IF_ERROR(CheckPeriod("TLS certificate", certificate_path, *certificate, now));
    identity.not_after =
        std::min(identity.not_after, ToTime(X509_get0_notAfter(certificate.get())));
  }
  const Bio bio = Reader(identity.key);
  const Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  if (key == nullptr) {
    return Unfit("TLS key", key_path, "has no private key in PEM that needs no password");
  }
  const bool match = X509_check_private_key(chain.front().get(), key.get()) == 1;
  ERR_clear_error();
  if (!match) {
    return absl::AbortedError(absl::StrCat(
        "TLS key ", key_path, ": is not the key of the certificate ", certificate_path));
  }
  identity.subject = Subject(*chain.front());
  return identity;
}

absl::StatusOr<Authorities> ReadAuthorities(const std::string& path, absl::Time now) {
  Authorities authorities;
  TANDEM_ASSIGN_OR_RETURN(authorities.certificates, ReadSmallFile("TLS CA", path));
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Certificate> all,
                          Certificates("TLS CA", path, authorities.certificates));
  absl::Status first;
  bool valid = false;
  authorities.not_after = absl::InfinitePast();
  for (const Certificate& authority : all) {
    const absl::Status period = CheckPeriod("TLS CA", path, *authority, now);
    valid = valid || period.ok();
    first.Update(period);
    authorities.not_after =
        std::max(authorities.not_after, ToTime(X509_get0_notAfter(authority.get())));
  }
  if (!valid) return first;
  return authorities;
}

absl::Status ReadPatiently(const std::function<absl::Status()>& read) {
  const absl::Time until = absl::Now() + absl::Seconds(1);
  while (true) {
    absl::Status status = read();
    if (!absl::IsAborted(status) || absl::Now() >= until) return status;
    absl::SleepFor(absl::Milliseconds(20));
  }
}

FileStamps::FileStamps(std::vector<std::string> paths) : paths_(std::move(paths)) {
  std::erase(paths_, "");
  seen_ = Look();
}

bool FileStamps::Changed() {
  std::vector<Stamp> now = Look();
  if (now == seen_) return false;
  seen_ = std::move(now);
  return true;
}

std::vector<FileStamps::Stamp> FileStamps::Look() const {
  std::vector<Stamp> stamps;
  for (const std::string& path : paths_) {
    struct stat info = {};
    Stamp stamp;
    if (stat(path.c_str(), &info) == 0) {
      stamp = {info.st_dev, info.st_ino, info.st_size,
               int64_t{info.st_ctim.tv_sec} * 1'000'000'000 + info.st_ctim.tv_nsec};
    }
    stamps.push_back(stamp);
  }
  return stamps;
}

}  // namespace tandem::security
