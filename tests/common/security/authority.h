// Certificates for tests: an authority, what it signs, and files that are replaced as a whole.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "common/base/check.h"

namespace tandem::security {

struct PemPair {
  std::string certificate;
  std::string key;
};

struct CertificateOptions {
  std::string name = "test";                         // common name
  std::string names = "DNS:localhost,IP:127.0.0.1";  // subjectAltName
  long from_s = -3600;                               // from now
  long to_s = 3600;
};

class Authority {
 public:
  explicit Authority(const std::string& name) : key_(NewKey()), certificate_(X509_new()) {
    Fill(certificate_.get(), key_.get(), {.name = name});
    X509_set_issuer_name(certificate_.get(), X509_get_subject_name(certificate_.get()));
    Extend(certificate_.get(), NID_basic_constraints, "critical,CA:TRUE");
    X509_sign(certificate_.get(), key_.get(), EVP_sha256());
  }

  // One whose files there are.
  explicit Authority(const PemPair& files)
      : key_(Read(files.key, &PEM_read_bio_PrivateKey)),
        certificate_(Read(files.certificate, &PEM_read_bio_X509)) {}

  std::string certificate() const { return Pem(certificate_.get()); }

  PemPair Sign(const CertificateOptions& options) const {
    const Key key = NewKey();
    const std::unique_ptr<X509, decltype(&X509_free)> made(X509_new(), &X509_free);
    Fill(made.get(), key.get(), options);
    X509_set_issuer_name(made.get(), X509_get_subject_name(certificate_.get()));
    Extend(made.get(), NID_subject_alt_name, options.names);
    X509_sign(made.get(), key_.get(), EVP_sha256());
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    return {Pem(made.get()), Take(bio)};
  }

 private:
  struct FreeKey {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  };
  struct FreeCertificate {
    void operator()(X509* certificate) const { X509_free(certificate); }
  };
  using Key = std::unique_ptr<EVP_PKEY, FreeKey>;

  template <typename T>
  static T* Read(const std::string& text, T* (*read)(BIO*, T**, pem_password_cb*, void*)) {
    BIO* bio = BIO_new_mem_buf(text.data(), static_cast<int>(text.size()));
    T* const object = read(bio, nullptr, nullptr, nullptr);
    TANDEM_CHECK(object != nullptr);
    BIO_free(bio);
    return object;
  }
  static Key NewKey() { return Key(EVP_EC_gen("P-256")); }
  static std::string Take(BIO* bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    std::string text(data, static_cast<size_t>(size));
    BIO_free(bio);
    return text;
  }
  static std::string Pem(X509* certificate) {
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, certificate);
    return Take(bio);
  }
  static void Fill(X509* certificate, EVP_PKEY* key, const CertificateOptions& options) {
    static long serial = 1;
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(certificate), options.from_s);
    X509_gmtime_adj(X509_getm_notAfter(certificate), options.to_s);
    X509_set_pubkey(certificate, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(options.name.c_str()), -1, -1,
                               0);
  }
  static void Extend(X509* certificate, int nid, const std::string& value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
    TANDEM_CHECK(extension != nullptr) << value;
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }

  Key key_;
  std::unique_ptr<X509, FreeCertificate> certificate_;
};

// A folder that is gone afterwards.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tandem-tls-XXXXXX").string();
    TANDEM_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  // Written beside it, then renamed. Its path.
  std::string Put(const std::string& name, const std::string& text) const {
    const std::string path = Path(name);
    std::ofstream(path + ".new") << text;
    std::filesystem::rename(path + ".new", path);
    return path;
  }
  std::string Path(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace tandem::security
