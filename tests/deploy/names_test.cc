// Names resolve to what a test says: all addresses, from the next lookup on, on several threads at
// a time.
#include "tests/deploy/names.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <atomic>
#include <memory>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> LookUp(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(name.c_str(), "7000", &hints, &list) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  std::vector<std::string> addresses;
  for (; list != nullptr; list = list->ai_next) {
    const auto* address = reinterpret_cast<const sockaddr_in*>(list->ai_addr);
    EXPECT_EQ(address->sin_family, AF_INET);
    EXPECT_EQ(address->sin_port, htons(7000));
    char text[INET_ADDRSTRLEN];
    addresses.push_back(inet_ntop(AF_INET, &address->sin_addr, text, sizeof(text)));
  }
  return addresses;
}

TEST(NamesTest, ANameHasTheAddressesItWasGiven) {
  Names names;
  EXPECT_THAT(LookUp("some-service"), IsEmpty());
  names.Set("some-service", {"127.0.0.2", "127.0.0.3"});
  names.Set("another", {"127.0.0.9"});
  EXPECT_THAT(LookUp("some-service"), ElementsAre("127.0.0.2", "127.0.0.3"));
  names.Set("some-service", {"127.0.0.4"});
  EXPECT_THAT(LookUp("some-service"), ElementsAre("127.0.0.4"));
  EXPECT_THAT(LookUp("another"), ElementsAre("127.0.0.9"));
  names.Set("some-service", {});
  EXPECT_THAT(LookUp("some-service"), IsEmpty());
  EXPECT_THAT(LookUp("127.0.0.7"), ElementsAre("127.0.0.7"));
}

TEST(NamesTest, ThreadsSeeOneStateOrTheOther) {
  Names names;
  names.Set("some-service", {"127.0.0.2"});
  std::atomic<bool> stop = false;
  std::atomic<int> odd = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        const std::vector<std::string> found = LookUp("some-service");
        if (found != std::vector<std::string>{"127.0.0.2"} &&
            found != std::vector<std::string>{"127.0.0.3", "127.0.0.4"}) {
          ++odd;
        }
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    names.Set("some-service", {"127.0.0.3", "127.0.0.4"});
    names.Set("some-service", {"127.0.0.2"});
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(odd, 0);
}

}  // namespace
}  // namespace tandem::testing
