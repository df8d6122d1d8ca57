// A port of HTTP with TLS: what is spoken, who may, and certificates that are replaced.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "tests/common/http/port_fixture.h"
#include "tests/common/security/authority.h"

namespace tandem::http {
namespace {

using ::testing::EndsWith;
using ::testing::Not;

struct Free {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* connection) const { SSL_free(connection); }
};

// What came back, and the common name of the server's certificate.
struct Answer {
  std::string text;
  std::string server;
};

class TlsPortTest : public PortTest {
 protected:
  void SetUp() override { Put("server", ca_.Sign({.name = "first"})); }

  std::string Path(const std::string& name) const { return ::testing::TempDir() + unique_ + name; }
  void Put(const std::string& name, const security::PemPair& pair) const {
    Write(Path(name + ".pem"), pair.certificate);
    Write(Path(name + ".key"), pair.key);
  }
  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path + ".new") << text;
    std::filesystem::rename(path + ".new", path);
  }
  void ServeTls(bool mutual = false) {
    PortOptions options;
    options.tls.certificate = Path("server.pem");
    options.tls.key = Path("server.key");
    if (mutual) {
      Write(Path("ca.pem"), ca_.certificate());
      options.tls.client_ca = Path("ca.pem");
    }
    Serve(options);
  }

  // `client`: the files of its certificate; empty: it has none.
  Answer Send(const std::string& request, const std::string& client = "") const {
    const std::unique_ptr<SSL_CTX, Free> context(SSL_CTX_new(TLS_client_method()));
    if (!client.empty()) {
      SSL_CTX_use_certificate_file(context.get(), Path(client + ".pem").c_str(), SSL_FILETYPE_PEM);
      SSL_CTX_use_PrivateKey_file(context.get(), Path(client + ".key").c_str(), SSL_FILETYPE_PEM);
    }
    const std::unique_ptr<SSL, Free> ssl(SSL_new(context.get()));
    BIO* const bio = BIO_new_connect(("127.0.0.1:" + std::to_string(port_->port())).c_str());
    SSL_set_bio(ssl.get(), bio, bio);
    Answer answer;
    if (SSL_connect(ssl.get()) != 1) return answer;
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(
        SSL_get1_peer_certificate(ssl.get()), &X509_free);
    char name[64] = {};
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, name,
                              sizeof(name));
    answer.server = name;
    SSL_write(ssl.get(), request.data(), static_cast<int>(request.size()));
    char bytes[4096];
    int got = 0;
    while ((got = SSL_read(ssl.get(), bytes, sizeof(bytes))) > 0) {
      answer.text.append(bytes, static_cast<size_t>(got));
    }
    return answer;
  }

  const security::Authority ca_{"ours"};
  const security::Authority other_ca_{"another's"};

 private:
  const std::string unique_ =
      ::testing::UnitTest::GetInstance()->current_test_info()->name() + std::to_string(getpid());
};

TEST_F(TlsPortTest, SpeaksTls) {
  ServeTls();
  const std::string body(300'000, 'x');  // read in several turns
  const Answer answer = Send(Post("/echo", body, "Connection: close\r\n"));
  EXPECT_THAT(answer.text, EndsWith("\r\n\r\n" + body));
  EXPECT_EQ(answer.server, "first");
  EXPECT_EQ(
      Send(Post("/echo", "a") + Post("/echo", "b", "Connection: close\r\n")).text.substr(0, 15),
      "HTTP/1.1 200 OK");
}

TEST_F(TlsPortTest, AnswersNobodyInPlaintext) {
  ServeTls();
  auto client = Connect();
  client.Send(Get("/echo"));
  EXPECT_THAT(client.ReadToEnd(), Not(::testing::HasSubstr("HTTP/1.1 200")));
}

TEST_F(TlsPortTest, WantsACertificateOfTheAuthority) {
  Put("ours", ca_.Sign({.name = "client"}));
  Put("strange", other_ca_.Sign({.name = "client"}));
  ServeTls(/*mutual=*/true);
  const std::string request = Post("/echo", "x", "Connection: close\r\n");
  EXPECT_THAT(Send(request, "ours").text, EndsWith("\r\n\r\nx"));
  EXPECT_EQ(Send(request, "strange").text, "");
  EXPECT_EQ(Send(request).text, "");
}

TEST_F(TlsPortTest, TakesANewCertificateAndKeepsTheOldOneWhenTheNewIsWrong) {
  ServeTls();
  const std::string request = Post("/echo", "x", "Connection: close\r\n");
  Put("server", ca_.Sign({.name = "second"}));
  EXPECT_EQ(Send(request).server, "second");
  Write(Path("server.pem"), "nonsense");
  EXPECT_EQ(Send(request).server, "second");
}

}  // namespace
}  // namespace tandem::http
